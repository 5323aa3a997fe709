"""Rows in any order as sorted runs, and the runs as one sequence."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa

from ...event import Event
from ..staging.piece import Piece, PieceWriter
from .columns import FIELDS, Numbered, columns_of, events_of
from .origin import Staged
from .rows import RowReader

RUN_EVENTS = 100_000
RUN_BYTES = 64 * 1024 * 1024

Key = tuple[Any, int, int]
"""What a row is sorted by: a value of its own, and where it comes from if that is equal: its task and its number."""


class Task:
    """Where the rows of a run come from."""

    def __init__(self, number: int) -> None:
        self.number = number

    def place(self, row: int) -> str:
        """A row, as errors name it."""
        return f"row {row:,} of partition {self.number:,}"


def sorted_runs(
    batches: Iterable[pa.RecordBatch], folder: str, order_by: str, reader: RowReader, task: int
) -> Iterator[Piece]:
    """Stage the events of a task in runs, each as long as is kept in memory; what is wrong comes in a piece, too."""
    piece, size = Piece((), ()), 0
    run: list[tuple[Key, Event]] = []
    kind = pa.null()
    for batch in batches:
        kind = batch.schema.field(order_by).type
        run += [((value, task, one.row), one.event) for value, one in reader.events(batch, piece)]
        size += batch.nbytes
        if len(run) >= RUN_EVENTS or size >= RUN_BYTES:
            yield _staged(piece, run, folder, kind)
            piece, size, run = Piece((), (), rows=piece.rows), 0, []
    yield _staged(piece, run, folder, kind)


def _staged(piece: Piece, run: list[tuple[Key, Event]], folder: str, kind: pa.DataType) -> Piece:
    if run:
        run.sort(key=itemgetter(0))
        file = PieceWriter(folder, pa.schema([*FIELDS, ("order", kind), ("task", pa.int64())]))
        values, tasks, rows = zip(*(key for key, _ in run), strict=True)
        numbered = [Numbered(row, event) for row, (_, event) in zip(rows, run, strict=True)]
        file.write([*columns_of(numbered), values, tasks])
        piece.first, piece.last = run[0][0], run[-1][0]
        piece.path, piece.staged = file.close(), len(run)
    return piece


def merged(pieces: Iterable[Piece]) -> Iterator[Staged]:
    """The events of all runs, sorted."""
    for group in _overlapping(piece for piece in pieces if piece.path):
        for _, staged in heapq.merge(*map(_events, group), key=itemgetter(0)):
            yield staged


def _overlapping(pieces: Iterable[Piece]) -> Iterator[Sequence[Piece]]:
    """The runs in groups that follow each other: who sorted before leaves little to merge."""
    group: list[Piece] = []
    for piece in sorted(pieces, key=lambda piece: piece.first):
        if group and piece.first > max(one.last for one in group):
            yield group
            group = []
        group.append(piece)
    if group:
        yield group


def _events(piece: Piece) -> Iterator[tuple[Key, Staged]]:
    for batch in piece.batches():
        values, tasks = batch.column("order").to_pylist(), batch.column("task").to_pylist()
        for value, task, one in zip(values, tasks, events_of(batch), strict=True):
            yield (value, task, one.row), Staged(one.event, one.row, Task(task))
