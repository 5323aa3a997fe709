"""Events as Arrow has them, made into the events that projections take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import repeat
from typing import Any
from uuid import UUID

import pyarrow as pa

from ...domain.event import VERSION
from ...errors import InvalidInput
from ...event import SequencedEvent, encode_metadata, join_tags
from .columns import KEY, NEEDED


def sequenced(batch: pa.RecordBatch) -> Iterator[SequencedEvent]:
    """The events of a batch. Columns that it has not are left empty, as for projections that never look at them."""
    return map(
        SequencedEvent,
        _values(batch, "position", None),
        _values(batch, "type", None),
        batch.column("data").cast(pa.binary()).to_pylist(),
        map(join_tags, _values(batch, "tags", ())),
        _values(batch, "stream", None),
        _values(batch, "subject", None),
        [UUID(text).bytes for text in batch.column("id").to_pylist()] if _has(batch, "id") else repeat(b""),
        _metadata(batch),
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


def _metadata(batch: pa.RecordBatch) -> Iterable[bytes | None]:
    """The metadata as the log has it; where nobody looks at it, only the version is there."""
    if _has(batch, "metadata"):
        return [encode_metadata(dict(entries or ())) for entries in batch.column("metadata").to_pylist()]
    if not _has(batch, VERSION) or batch.column(VERSION).null_count == batch.num_rows:
        return repeat(None)
    return map(_only_version, batch.column(VERSION).to_pylist())


@cache
def _only_version(version: str | None) -> bytes | None:
    return None if version is None else encode_metadata({VERSION: version})
