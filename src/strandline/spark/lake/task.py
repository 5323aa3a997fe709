"""What one task does: a range of events becomes files of bronze and silver tables, in one pass."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import date
from uuid import uuid4

import msgspec
import pyarrow as pa

from ...names import RESERVED
from ..loading import load
from .files import Staged, TableFile, file_name, flush_largest
from .inference import Fields, add_fields
from .kinds import Column
from .silver import Silver, decoded

BRONZE = "bronze"

_LIST = pa.list_(pa.field("element", pa.string()))
_MAP = pa.map_(pa.string(), pa.string())
EVENTS = pa.schema(
    [
        ("position", pa.int64()),
        ("type", pa.string()),
        ("tags", _LIST),
        ("data", pa.binary()),
        ("id", pa.string()),
        ("metadata", _MAP),
        ("stream", pa.string()),
        ("subject", pa.string()),
        ("recorded_at", pa.timestamp("us", "UTC")),
    ]
)
"""What a task is given: the columns of the source, with the data as bytes."""


class SilverTable(msgspec.Struct, frozen=True):
    """How a task writes the events of one type."""

    folder: str
    columns: list[Column]
    cls: str | None = None


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What the tasks of a job write, and where."""

    staging: str
    commit: int
    bronze: bool = False
    silver: dict[str, SilverTable] = {}
    infer: bool = False  # look at the types that have no silver table yet
    whole: str | None = None  # the folder of a table that is written as it comes
    until: int = 0


class Report(msgspec.Struct):
    """What a task wrote, how many events of each type it saw, and the fields of types that are new."""

    files: list[Staged] = []
    counts: dict[str, int] = {}
    inferred: dict[str, Fields] = {}


class Open(msgspec.Struct):
    """A file that is being written, and the positions in it."""

    file: TableFile
    table: str
    folder: str
    first: int
    last: int


class Task:
    """Writes the files of one task. Nothing of it is part of the lake until the driver says so."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._place = os.path.join(job.staging, uuid4().hex)  # attempts of a task do not see each other
        self._silver = {name: _silver(table) for name, table in job.silver.items()}
        self._open: dict[str, Open] = {}
        self._report = Report()

    def run(self, batches: Iterable[pa.RecordBatch]) -> Report:
        """Write all batches."""
        for batch in batches:
            if batch.num_rows == 0:
                continue
            if self._job.whole is None:
                self._add(_as_events(batch))
            else:
                self._append(self._job.whole, self._job.whole, batch, 1, self._job.until)
            flush_largest([opened.file for opened in self._open.values()])
        for folder in [*self._open]:
            self._close(folder)
        return self._report

    def run_empty(self, schema: pa.Schema) -> Report:
        """Write a table that has no rows."""
        assert self._job.whole is not None
        self._append(
            self._job.whole, self._job.whole, schema.empty_table().to_batches()[0], 1, self._job.until
        )
        self._close(self._job.whole)
        return self._report

    def _add(self, events: pa.RecordBatch) -> None:
        if self._job.bronze:
            for day, rows in _by_day(events):
                first, last = rows["position"][0].as_py(), rows["position"][-1].as_py()
                self._append(BRONZE, f"{BRONZE}/date={day.isoformat()}", bronze_rows(rows), first, last)
        for type, rows in _by_type(events):
            self._report.counts[type] = self._report.counts.get(type, 0) + rows.num_rows
            if type in self._silver:
                first, last = rows["position"][0].as_py(), rows["position"][-1].as_py()
                table = self._job.silver[type].folder
                self._append(table, table, self._silver[type].rows(rows), first, last)
            elif self._job.infer and not type.startswith(RESERVED):
                fields = self._report.inferred.setdefault(type, {})
                for data in rows["data"].to_pylist():
                    add_fields(fields, decoded(data) or {})

    def _append(self, table: str, folder: str, rows: pa.RecordBatch, first: int, last: int) -> None:
        opened = self._open.get(folder)
        is_bronze = table == BRONZE
        if opened is not None and is_bronze and opened.last + 1 != first:
            self._close(folder)  # a file of bronze has no gaps
            opened = None
        if opened is None:
            file = TableFile(os.path.join(self._place, folder, f"{uuid4().hex}.parquet"))
            opened = self._open[folder] = Open(file, table, folder, first, last)
        opened.last = last
        opened.file.add(rows)

    def _close(self, folder: str) -> None:
        opened = self._open.pop(folder)
        size, file = opened.file.close(), opened.file
        name = file_name(opened.first, opened.last, self._job.commit)
        if self._job.whole is not None:
            name += f"-{uuid4().hex[:8]}"
        path = f"{folder}/{name}.parquet"
        staged = Staged(opened.table, path, file.path, opened.first, opened.last, file.rows, size)
        self._report.files.append(staged)


def bronze_rows(events: pa.RecordBatch) -> pa.RecordBatch:
    """Events as bronze keeps them: data as text, and what is no text as bytes."""
    data = events["data"]
    try:
        text, raw = data.cast(pa.string()), pa.nulls(len(data), pa.binary())
    except pa.ArrowInvalid:
        texts = [_text(value) for value in data.to_pylist()]
        text = pa.array(texts, pa.string())
        raw = pa.array(
            [None if shown is not None else value.as_py() for shown, value in zip(texts, data, strict=True)],
            pa.binary(),
        )
    arrays = {name: text if name == "data" else events[name] for name in EVENTS.names}
    return pa.record_batch({**arrays, "data_bytes": raw})


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _silver(table: SilverTable) -> Silver:
    return Silver(table.columns, None if table.cls is None else load(table.cls))


def _as_events(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.select(EVENTS.names).cast(EVENTS)


def _by_day(events: pa.RecordBatch) -> Iterator[tuple[date, pa.RecordBatch]]:
    """The batch in parts of one day and without gaps."""
    days = events["recorded_at"].cast(pa.date32()).to_pylist()
    positions = events["position"].to_pylist()
    starts = [
        row
        for row in range(len(days))
        if row == 0 or days[row] != days[row - 1] or positions[row] != positions[row - 1] + 1
    ]
    for start, end in zip(starts, [*starts[1:], len(days)], strict=True):
        yield days[start], events.slice(start, end - start)


def _by_type(events: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    rows: dict[str, list[int]] = {}
    for row, type in enumerate(events["type"].to_pylist()):
        rows.setdefault(type, []).append(row)
    for type, indices in rows.items():
        yield type, events if len(rows) == 1 else events.take(pa.array(indices))
