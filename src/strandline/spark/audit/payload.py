"""The log's own match function, for what types and tags cannot tell."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import msgspec
from pyspark.sql import Column
from pyspark.sql import functions as fn

from ...names import RESERVED, key_tag, stream_tag, subject_tag
from ...query import Query, QueryItem


def does_match(tags: str, item: Column) -> Column:
    """Whether a part of the condition, or the item of it that is given, matches the event with these tags."""
    columns = (fn.col(name) for name in ("type", tags, "data", "metadata"))
    return fn.udf(_matches, "BOOLEAN", useArrow=False)(fn.col("condition"), fn.col("part"), item, *columns)


class Event(NamedTuple):
    """What a query looks at."""

    type: str
    tags: tuple[str, ...]
    stream: str | None
    subject: str | None
    key: str | None
    data: bytes
    metadata: dict[str, str]


def event(type: str, tags: list[str], data: Any, metadata: Any) -> Event:
    """An event with these tags, of which the reserved ones tell stream, subject and key."""
    reserved = [tag for tag in tags if tag.startswith(RESERVED)]

    def named(prefix: str) -> str | None:
        return next((tag.removeprefix(prefix) for tag in reserved if tag.startswith(prefix)), None)

    return Event(
        type,
        tuple(tag for tag in tags if not tag.startswith(RESERVED)),
        named(stream_tag("")),
        named(subject_tag("")),
        named(key_tag("")),
        bytes(data),
        msgspec.json.decode(bytes(metadata)) if metadata else {},
    )


def _matches(
    condition: str, part: int, item: int | None, type: str, tags: list[str], data: Any, metadata: Any
) -> bool:
    return asked(condition, part, item).matches(event(type, tags, data, metadata))


@functools.lru_cache(maxsize=1024)
def asked(condition: str, part: int, item: int | None) -> Query | QueryItem:
    """A part of a condition, or one item of it."""
    fields = msgspec.json.decode(condition)
    query = fields.get("parts", [fields])[part]["fail_if_events_match"]
    return Query.from_fields(query) if item is None else QueryItem(**query["items"][item])
