"""Events as columns of a staged piece, and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from ...event import Event, encode_metadata, join_tags, restore_event, split_tags

FIELDS = [
    ("row", pa.int64()),
    ("id", pa.binary(16)),
    ("type", pa.string()),
    ("data", pa.binary()),
    ("tags", pa.string()),
    ("key", pa.string()),
    ("metadata", pa.binary()),
    ("stream", pa.string()),
    ("subject", pa.string()),
]
SCHEMA = pa.schema(FIELDS)


class Numbered(msgspec.Struct, frozen=True, gc=False):
    """An event of a source, with the number of its row; it may have no id of its own."""

    row: int
    event: Event
    has_id: bool = True


def columns_of(events: Sequence[Numbered]) -> list[list[Any]]:
    """The columns, in the order of the schema."""
    return [
        [one.row for one in events],
        [one.event.raw_id if one.has_id else None for one in events],
        [one.event.type for one in events],
        [one.event.data for one in events],
        [join_tags(one.event.tags) for one in events],
        [one.event.key for one in events],
        [encode_metadata(one.event.metadata) for one in events],
        [one.event.stream for one in events],
        [one.event.subject for one in events],
    ]


def events_of(batch: pa.RecordBatch) -> Iterator[Numbered]:
    """The events; they were checked when they were staged."""
    for row, id, type, data, tags, key, metadata, stream, subject in zip(
        *(column.to_pylist() for column in batch.columns[: len(FIELDS)]), strict=True
    ):
        plain = msgspec.json.decode(metadata) if metadata else {}
        event = restore_event(data, key, plain, id, stream, subject, split_tags(tags), type)
        yield Numbered(row, event, id is not None)
