"""Events as Arrow has them, made into the events that projections take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import repeat
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from ...arrow import KEPT_AS
from ...errors import InvalidInput
from ...event import SequencedEvent, encode_metadata, join_tags
from .columns import KEY, NEEDED
from .passing import Events, Keyed


def packed(columns: Mapping[str, pa.Array], keys: Sequence[pa.ListArray]) -> pa.RecordBatch:
    """Columns of the log, and the keys of each event: a list for each projection."""
    schema = _packed_as(tuple(columns), len(keys))
    arrays = [array.cast(kind) for array, kind in zip((*columns.values(), *keys), schema.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def unpacked(data: pa.Buffer, columns: Sequence[str], projections: int) -> tuple[Events, list[Keyed]]:
    """The events, and the keys of each projection."""
    batch = pa.ipc.read_record_batch(data, _packed_as(tuple(columns), projections))
    metadata = batch.column("metadata")
    events = Events(
        batch.column("position").to_pylist(),
        batch.column("type").to_pylist(),
        batch.column("data").to_pylist(),
        metadata.null_count < len(metadata),
        _whole(batch),
    )
    return events, [_keyed(batch.column(len(columns) + number)) for number in range(projections)]


def _whole(batch: pa.RecordBatch) -> Callable[[int], SequencedEvent]:
    made: list[SequencedEvent] = []

    def whole(place: int) -> SequencedEvent:
        if not made:
            made.extend(_as_kept(batch))
        return made[place]

    return whole


def _as_kept(batch: pa.RecordBatch) -> Iterator[SequencedEvent]:
    return map(
        SequencedEvent,
        _values(batch, "position", None),
        _values(batch, "type", None),
        _values(batch, "data", None),
        _values(batch, "tags", ""),
        _values(batch, "stream", None),
        _values(batch, "subject", None),
        _ids(batch),
        _values(batch, "metadata", None),
        _values(batch, "recorded_at", 0),
    )


def _keyed(lists: pa.ListArray) -> Keyed:
    return pc.list_parent_indices(lists).to_pylist(), lists.flatten().to_pylist()


@cache
def _packed_as(columns: tuple[str, ...], projections: int) -> pa.Schema:
    lists = [(f"{KEY} {number}", pa.list_(pa.string())) for number in range(projections)]
    return pa.schema([*((name, KEPT_AS[name]) for name in columns), *lists])


def sequenced(batch: pa.RecordBatch) -> Iterator[SequencedEvent]:
    """The events of a table of the source's. Columns that it has not are left empty."""
    return map(
        SequencedEvent,
        _values(batch, "position", None),
        _values(batch, "type", None),
        batch.column("data").cast(pa.binary()).to_pylist(),
        map(join_tags, _values(batch, "tags", ())),
        _values(batch, "stream", None),
        _values(batch, "subject", None),
        _ids(batch),
        [encode_metadata(dict(entries or ())) for entries in batch.column("metadata").to_pylist()]
        if _has(batch, "metadata")
        else repeat(None),
        batch.column("recorded_at").cast(pa.int64()).to_pylist() if _has(batch, "recorded_at") else repeat(0),
    )


def in_columns(events: Sequence[SequencedEvent]) -> Events:
    """Events as a pass takes them."""
    return Events(
        [event.position for event in events],
        [event.type for event in events],
        [event.data for event in events],
        any(event.raw_metadata is not None for event in events),
        events.__getitem__,
    )


def check_columns(names: Iterable[str]) -> None:
    """Refuse what a query gives to a table function if it has no events."""
    missing = {KEY, *NEEDED} - {*names}
    if missing:
        raise InvalidInput(
            f"the table has no column {', '.join(sorted(missing))}",
            hint="give it TABLE(SELECT * FROM events, LATERAL …_keys(type, tags)) PARTITION BY key ORDER BY position",
        )


def _has(batch: pa.RecordBatch, name: str) -> bool:
    return name in batch.schema.names


def _values(batch: pa.RecordBatch, name: str, default: Any) -> Iterable[Any]:
    return batch.column(name).to_pylist() if _has(batch, name) else repeat(default)


def _ids(batch: pa.RecordBatch) -> Iterable[bytes]:
    return [UUID(text).bytes for text in batch.column("id").to_pylist()] if _has(batch, "id") else repeat(b"")
