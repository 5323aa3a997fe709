"""The log's own match function, for what types and tags cannot tell."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import msgspec
from pyspark.sql import Column
from pyspark.sql import functions as fn

from ...event import TRACKING
from ...names import RESERVED, key_tag, stream_tag, subject_tag
from ...query import QueryItem


def does_match(tags: str) -> Column:
    """Return whether the item of the condition matches the event with these tags."""
    columns = ("condition", "part", "item", "type", tags, "data", "metadata")
    return fn.udf(_matches, "BOOLEAN", useArrow=False)(*map(fn.col, columns))


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
    decoded: dict[str, str] = msgspec.json.decode(bytes(metadata)) if metadata else {}
    decoded.pop(TRACKING, None)
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
        decoded,
    )


def _matches(
    condition: str, part: int, item: int, type: str, tags: list[str], data: Any, metadata: Any
) -> bool:
    return asked(condition, part, item).matches(event(type, tags, data, metadata))


@functools.lru_cache(maxsize=1024)
def asked(condition: str, part: int, item: int) -> QueryItem:
    """Return an item of a part of a condition."""
    fields = msgspec.json.decode(condition)
    return QueryItem(**fields.get("parts", [fields])[part]["fail_if_events_match"]["items"][item])
