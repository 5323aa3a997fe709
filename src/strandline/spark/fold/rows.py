"""Events as Arrow has them, made into the events that projections take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import repeat
from typing import Any
from uuid import UUID

import pyarrow as pa

from ...errors import InvalidInput
from ...event import SequencedEvent, encode_metadata, join_tags
from ..source.arrow import KEPT_AS
from .columns import KEY, NEEDED


def packed(columns: Mapping[str, pa.Array]) -> bytes:
    """Columns of the log, and of keys."""
    schema = _packed_as(tuple(columns))
    arrays = [columns[field.name].cast(field.type) for field in schema]
    return bytes(pa.RecordBatch.from_arrays(arrays, schema=schema).serialize())


def unpacked(data: pa.Buffer, columns: Sequence[str]) -> tuple[Iterable[str], Iterator[SequencedEvent]]:
    """The keys and the events."""
    batch = pa.ipc.read_record_batch(data, _packed_as((KEY, *columns)))
    events = map(
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
    return batch.column(KEY).to_pylist(), events


@cache
def _packed_as(columns: tuple[str, ...]) -> pa.Schema:
    return pa.schema({name: pa.string() if name == KEY else KEPT_AS[name] for name in columns})


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
