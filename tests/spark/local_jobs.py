"""Exports without a JVM: the jobs run here, through the very writer that Spark calls."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa

from places import Place
from strandline.domain.shape import shape_of
from strandline.engine import Engine, Span
from strandline.engine.audit import events
from strandline.engine.open import DEFAULT_LOG
from strandline.event import SequencedEvent
from strandline.query import Query
from strandline.spark.lake.export import Exported
from strandline.spark.lake.exporting import bring_up_to_date, opened
from strandline.spark.lake.sink import LakeWriter, read_report
from strandline.spark.lake.task import EVENTS, Job, Report, Task
from strandline.spark.loading import projection

TASKS = 2
ROWS = 7  # of a record batch


class LocalJobs:
    """Runs the tasks of a job one after another."""

    def __init__(self, place: Place) -> None:
        self._url = str(place.url)
        self._log = place.log or DEFAULT_LOG

    def write_events(self, job: Job, after: int, until: int, query: Query | None) -> list[Report]:
        with closing(opened(self._url, self._log)) as engine:
            edges = [after + (until - after) * number // TASKS for number in range(TASKS + 1)]
            tasks = [
                batches(engine, query or Query.all(), Span(start, end))
                for start, end in itertools.pairwise(edges)
                if start < end
            ]
            return write(job, tasks)

    def fold(self, path: str, until: int) -> pa.Table:
        cls: Any = projection(path)
        ((_, kind),) = shape_of(cls).key
        states: dict[str, Any] = {}
        with closing(opened(self._url, self._log)) as engine:
            for event in events(engine, Query.types(*shape_of(cls).handlers), Span(0, until)):
                for tag in event.tags:
                    if tag.startswith(f"{kind.prefix}:"):
                        key = tag.removeprefix(f"{kind.prefix}:")
                        states.setdefault(key, cls(key)).apply(event)
        rows = [dict(vars(state)) for _, state in sorted(states.items())]
        return pa.Table.from_pylist(rows) if rows else pa.table({"id": pa.array([], pa.string())})

    def write_table(self, job: Job, table: pa.Table) -> list[Report]:
        return (
            write(job, [iter(table.to_batches())]) if table.num_rows else [Task(job).run_empty(table.schema)]
        )


def write(job: Job, tasks: list[Iterator[pa.RecordBatch]]) -> list[Report]:
    report = os.path.join(job.staging, f"{uuid4().hex}.json")
    writer = LakeWriter(job, report)
    writer.commit([writer.write(task) for task in tasks])
    return read_report(report)


def batches(engine: Engine, query: Query, span: Span) -> Iterator[pa.RecordBatch]:
    """The events of a span as the source gives them."""
    rows: list[dict[str, Any]] = []
    for event in events(engine, query, span):
        rows.append(row(event))
        if len(rows) == ROWS:
            yield pa.RecordBatch.from_pylist(rows, EVENTS)
            rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, EVENTS)


def row(event: SequencedEvent) -> dict[str, Any]:
    values = {name: getattr(event, name) for name in EVENTS.names}
    return values | {"id": str(event.id), "metadata": list(event.metadata.items()), "tags": list(event.tags)}


def export(place: Place, lake: str | Path, format: str = "parquet", **options: Any) -> Exported:
    """`strandline.spark.export` without Spark."""
    given = {"events": (), "projections": (), "batch": 1_000_000, "progress": lambda *_: None} | options
    log = place.log or DEFAULT_LOG
    return bring_up_to_date(LocalJobs(place), str(place.url), lake, format, log=log, **given)
