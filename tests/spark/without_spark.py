"""What Spark does with the log before it is folded, done by hand: so that the rest can be tried without a JVM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from strandline import EventStore, Query
from strandline.domain.folding import Fold
from strandline.spark.fold.columns import SEPARATOR
from strandline.spark.fold.passing import Folded, Pass

SCHEMA = pa.schema(
    {
        "position": pa.int64(),
        "type": pa.string(),
        "data": pa.string(),
        "tags": pa.list_(pa.string()),
        "stream": pa.string(),
        "subject": pa.string(),
        "id": pa.string(),
        "metadata": pa.map_(pa.string(), pa.string()),
        "recorded_at": pa.timestamp("us", "UTC"),
        "key": pa.string(),
    }
)


def shuffled(
    store: EventStore, folds: Sequence[Fold], *, until: int | None = None, partitions: int = 2, size: int = 5
) -> list[list[pa.RecordBatch]]:
    """The log as the tasks get it: exploded by key, partitioned by key, sorted by key and position, in batches."""
    rows: list[list[dict[str, Any]]] = [[] for _ in range(partitions)]
    for event in store.read(Query.user(), until=until):
        values = {name: getattr(event, name) for name in SCHEMA.names if hasattr(event, name)}
        values |= {"data": event.data.decode(), "id": str(event.id), "metadata": list(event.metadata.items())}
        for number, fold in enumerate(folds):
            for key in fold.keys(event.tags) if event.type in fold.types else ():
                text = SEPARATOR.join((str(number), *key) if len(folds) > 1 else key)
                rows[sum(text.encode()) % partitions].append(values | {"key": text})
    return [list(_batches(sorted(part, key=_order), size)) for part in rows]


def passed(folds: Sequence[Fold], batches: Sequence[pa.RecordBatch]) -> Iterator[Folded]:
    """What one task folds."""
    one = Pass(folds)
    for batch in batches:
        yield from one.feed(batch)
    yield from one.end()


def _order(row: dict[str, Any]) -> tuple[bytes, int]:
    return row["key"].encode(), row["position"]


def _batches(rows: list[dict[str, Any]], size: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(rows), size):
        yield pa.RecordBatch.from_pylist(rows[start : start + size], SCHEMA)
