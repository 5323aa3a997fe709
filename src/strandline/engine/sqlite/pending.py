"""Rows on their way into the file, written together."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from .connection import Connection
from .recent import Entry, Segment
from .statements import sql

# Entries settle at four times the pace at which they come (several processes may be at the same ones),
# but not with every single append.
PACE = 4
SETTLE_AT_LEAST = 256

POSTING_INSERT = sql("posting_insert")

EVENT_INSERT = sql("event_insert")
_MOVE_INDEXED_TO = sql("move_indexed_to")


class PendingEvents:
    """Events that were accepted in the open transaction and are not in its table yet."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.rows: list[tuple[Any, ...]] = []

    def write(self) -> None:
        """Put them into the table."""
        if self.rows:
            self._connection.insert(EVENT_INSERT, self.rows)
            self.clear()

    def clear(self) -> None:
        """Forget them."""
        self.rows.clear()


class Settling:
    """Index entries on their way from memory into the file, oldest segment first."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._segment: Segment | None = None
        self._from = 0
        self._entries: Iterator[Entry] = iter(())
        self._due = 0

    def due(self, segments: tuple[Segment, ...], indexed_to: int, new_entries: int) -> list[Entry]:
        """Those entries of the oldest segment, if it is full, that are to be written with this transaction."""
        segments = tuple([segment for segment in segments if segment.head > indexed_to])
        if len(segments) < 2:
            return []
        self._due += PACE * new_entries
        is_behind = (
            len(segments) > 2
        )  # many short-lived processes, each too short to write a segment in steps
        if self._due < SETTLE_AT_LEAST and not is_behind:
            return []
        segment, wanted = segments[0], None if is_behind else self._due
        if segment is not self._segment or indexed_to != self._from:
            self._segment, self._from, self._entries = segment, indexed_to, segment.entries(indexed_to)
        self._due = 0
        batch = list(islice(self._entries, wanted))
        if wanted is None or len(batch) < wanted:
            self._move(segment.head)
        return batch

    def settle_all(self, segments: tuple[Segment, ...], indexed_to: int) -> int:
        """Write all entries."""
        for segment in segments:
            self._connection.insert(POSTING_INSERT, list(segment.entries(indexed_to)))
        self.start_again()
        return self._move(segments[-1].head)

    def start_again(self) -> None:
        """What was written is not in the file, or not known to be."""
        self._segment = None

    def _move(self, indexed_to: int) -> int:
        self._connection.rows(_MOVE_INDEXED_TO, (indexed_to,))
        return indexed_to
