"""What Spark does with the log before it is folded, done by hand: so that the rest can be tried without a JVM."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from operator import itemgetter
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pyarrow as pa

from strandline import EventStore, Query
from strandline.arrow import raw_columns
from strandline.domain.folding import Fold
from strandline.follow import ReadModel
from strandline.follow.models.filling import fill
from strandline.follow.models.rebuilding import prepare_shadow, rebuild
from strandline.follow.steps import at_once
from strandline.spark.fold.buckets import Told, packed_batches
from strandline.spark.fold.columns import columns_for
from strandline.spark.fold.keying import Keying
from strandline.spark.fold.passing import Folded, Pass
from strandline.spark.fold.table_function import feed
from strandline.spark.rebuild import SparkBulk
from strandline.spark.rebuild.job import Job
from strandline.spark.rebuild.staging import StageEvents


def shuffled(
    store: EventStore, folds: Sequence[Fold], *, until: int | None = None, partitions: int = 2, size: int = 5
) -> list[list[pa.RecordBatch]]:
    """The log as the tasks get it: read in batches, packed by bucket, a bucket for each task."""
    told = Told(tuple(map(Keying.of, folds)), columns_for(folds), partitions)
    rows = list(map(msgspec.structs.astuple, store.read(Query.user(), until=until)))
    raw = [raw_columns(rows[start : start + size]) for start in range(0, len(rows), size)]
    batches = [batch for one in raw for batch in packed_batches(one, told)]
    found = [row for batch in batches for row in batch.to_pylist()]
    Random(size).shuffle(found)  # as they may come out of a shuffle
    packed = sorted(found, key=itemgetter("position"))
    tasks = [[row for row in packed if row["bucket"] == bucket] for bucket in range(partitions)]
    return [[pa.RecordBatch.from_pylist([row], batches[0].schema) for row in task] for task in tasks]


def passed(folds: Sequence[Fold], batches: Sequence[pa.RecordBatch]) -> Iterator[Folded]:
    """What one task folds."""
    one = Pass(folds)
    for batch in batches:
        feed(one, folds, batch)
    yield from one.end()


class WithoutSpark(SparkBulk):
    """Fills tables as executors and driver do, one task after another in this process."""

    def __init__(self, store: EventStore, partitions: int = 2) -> None:
        super().__init__(cast("Any", None), store)
        self._store = store
        self._partitions = partitions

    def _folded(self, job: Job, head: int) -> list[Any]:
        sent = pickle.loads(pickle.dumps(job))
        tasks = shuffled(self._store, sent.folds, until=head, partitions=self._partitions, size=50)
        return [told for task in tasks for told in attempt(sent, task)]


def attempt(job: Job, batches: Sequence[pa.RecordBatch]) -> list[Any]:
    """What one attempt of a task tells."""
    stage = type("Stage", (StageEvents,), {"job": job})()
    try:
        for batch in batches:
            assert list(stage.eval(batch)) == []
        told = list(stage.terminate())
    finally:
        stage.cleanup()
    assert len(told) == bool(batches)  # Spark fails if a task without events gives a row
    return [SimpleNamespace(**row) for batch in told for row in batch.to_pylist()]


def rebuild_with(bulk: SparkBulk, store: EventStore, models: Sequence[ReadModel[Any]]) -> int:
    """Rebuild; returns how many events were folded at once, each for each key."""
    pairs = [model.pair(store) for model in models]
    assert take(rebuild(pairs, 100, bulk), store, models[0])
    return bulk.events


def rebuild_without_spark(store: EventStore, models: Sequence[ReadModel[Any]], partitions: int = 2) -> int:
    return rebuild_with(WithoutSpark(store, partitions), store, models)


def fill_only(store: EventStore, model: ReadModel[Any]) -> int:
    """Do what a rebuild does until the new table is filled, and no more."""
    pair, bulk = model.pair(store), WithoutSpark(store)
    take(at_once(store.engine, lambda tx: prepare_shadow(*pair, tx)), store, model)
    assert take(fill([pair.shadow], bulk), store, model)
    return bulk.events


def take(steps: Any, store: EventStore, model: ReadModel[Any]) -> Any:
    return model.pair(store).shadow.follower.perform(steps)
