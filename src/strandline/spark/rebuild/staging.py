"""The table function that executors run: it folds, puts the rows aside, and tells only how many there are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import ClassVar
from uuid import uuid4

import pyarrow as pa

from ...domain.projection import Projection
from ...errors import FollowerFailed, StrandlineError
from ..fold.passing import Folded, Pass
from ..fold.table_function import feed
from .job import Job
from .parts import Part, new_part

ROWS_AT_ONCE = 1_000
TOLD = "attempt STRING, keys BIGINT, events BIGINT, error STRING, message STRING, hint STRING"
_NAMES = ["attempt", "keys", "events", "error", "message", "hint"]
_TYPES = [pa.string(), pa.int64(), pa.int64(), pa.string(), pa.string(), pa.string()]


class StageEvents:
    """Folds the events of one partition into a part of its own; a task that is tried again begins another."""

    job: ClassVar[Job]

    def __init__(self) -> None:
        self._attempt = uuid4().hex
        self._pass = Pass(self.job.folds)
        self._rows: list[list[list[object]]] = [[] for _ in self.job.targets]
        self._part: Part | None = None
        self._keys = 0
        self._has_begun = False
        self._error: StrandlineError | None = None

    def eval(self, table: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take the next events."""
        self._has_begun = True
        with self._telling_errors():
            if self._error is None:
                feed(self._pass, self.job.folds, table)
        return iter(())

    def terminate(self) -> Iterator[pa.RecordBatch]:
        """Tell that the part is whole, or what is wrong; nothing if there was nothing to do: Spark would fail at that."""
        if not self._has_begun:
            return
        with self._telling_errors():
            self._take(self._pass.end())
            for number in range(len(self._rows)):
                self._write(number)
            if self._part is not None and self._error is None:
                self._part.commit()
        error, attempt = self._error, None if self._part is None else self._attempt
        wrong = (None, None, None) if error is None else (type(error).__name__, str(error), error.hint)
        told = (attempt, self._keys, self._pass.events, *wrong)
        arrays = [pa.array([value], kind) for value, kind in zip(told, _TYPES, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=_NAMES)

    def cleanup(self) -> None:
        """Let go of what is open, whatever happened."""
        if self._part is not None:
            self._part.close()

    @contextmanager
    def _telling_errors(self) -> Iterator[None]:
        """What is wrong with an event or a state is so each time: the driver is told. Else the task may be tried again."""
        try:
            yield
        except StrandlineError as error:
            if error.retry == "same":
                raise
            self._error = self._error or error

    def _take(self, folded: Iterable[Folded]) -> None:
        if self._error is not None:
            return
        for number, state, position in folded:
            self._rows[number].append(self._row(number, state, position))
            self._keys += 1
            if len(self._rows[number]) >= ROWS_AT_ONCE:
                self._write(number)

    def _row(self, number: int, state: Projection, position: int) -> list[object]:
        try:
            return self.job.shadows[number].columns.row(state, position)
        except StrandlineError as error:
            key = ", ".join(map(repr, map(str.__str__, state._key())))
            raise FollowerFailed(
                f"{type(state).__name__}({key}) cannot be a row: {error}", hint=error.hint
            ) from error

    def _write(self, number: int) -> None:
        rows, self._rows[number] = self._rows[number], []
        if rows and self._error is None:
            self._part = self._part or new_part(self.job, self._attempt)
            self._part.write(number, rows)
