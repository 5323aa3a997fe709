"""The store's own statements: prepared once, run again and again. `native.pyx` does the same in less time.

Parameters are numbers, text, bytes, None, and lists of numbers or of bytes, not empty ones, where a statement has `carray(?1)`.
"""

from __future__ import annotations

import fcntl
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, starmap
from typing import Any, Protocol

import apsw

from ...event import SequencedEvent
from ...speedups import speedup

Find = Callable[..., list[SequencedEvent] | None]
"""Finds the events of plain queries by itself; None if the query is not plain (see `native.pyx`)."""


Insert = tuple[str, list[tuple[Any, ...]]]
"""`insert … values (…)`, and the rows for it."""


class Cursor(Protocol):
    """Runs statements through one connection, for one thread at a time."""

    find: Find | None
    undo: Callable[[], object]
    """Ends the transaction that is open, in one call in C."""

    def begin(self, patience: int) -> None:
        """Begin to write; wait so many milliseconds if somebody else does."""
        ...

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """The rows of a statement."""
        ...

    def slow_rows(self, statement: str, parameters: Sequence[Any]) -> list[Any]:
        """The rows of a statement that may take long."""
        ...

    def events(self, statement: str, parameters: Sequence[Any]) -> list[SequencedEvent]:
        """The events of rows with all columns, which are an event's fields in order."""
        ...

    def insert(self, statement: str, rows: list[tuple[Any, ...]]) -> None:
        """Run `insert … values (…)` with each of the rows."""
        ...

    def commit(self, inserts: Sequence[Insert], lock_file: int) -> bool:
        """Make the inserts, commit, and let go of the lock on the file: nobody waits for an interpreter in between.

        False if the log is committed, but the system did not let go of the lock.
        """
        ...

    def close(self) -> None:
        """Let go of the statements."""
        ...


class ApswCursor:
    """See `Cursor`."""

    find: Find | None = None

    # Rows of one step: each step has its price, and gives up the interpreter lock, which another thread may
    # then hold for long.
    SIZES = (16, 4, 1)

    def __init__(self, connection: apsw.Connection) -> None:
        # A cursor for each call, not one for all: a statement that an interrupt stopped would hold on to its snapshot.
        self._connection = connection
        self.undo: Callable[[], object] = partial(connection.execute, "rollback")

    def begin(self, patience: int) -> None:  # which the connection has
        self._connection.execute("begin immediate")

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        return list(self._execute(statement, parameters))

    slow_rows = rows

    def events(self, statement: str, parameters: Sequence[Any]) -> list[SequencedEvent]:
        return list(starmap(SequencedEvent, self._execute(statement, parameters)))

    def insert(self, statement: str, rows: list[tuple[Any, ...]]) -> None:
        begin, values, row = statement.rpartition("values")
        done = 0
        for size in self.SIZES:
            text = begin + values + ",".join([row] * size)
            while len(rows) - done >= size:
                self._connection.execute(text, [*chain.from_iterable(rows[done : done + size])])
                done += size

    def commit(self, inserts: Sequence[Insert], lock_file: int) -> bool:
        for statement, rows in inserts:
            self.insert(statement, rows)
        self._connection.execute("commit")
        try:
            fcntl.flock(lock_file, fcntl.LOCK_UN)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Let a later call say that this is closed."""
        self._connection = apsw.Connection(":memory:")
        self._connection.close()

    def _execute(self, statement: str, parameters: Sequence[Any]) -> Any:
        return self._connection.execute(
            statement, [_array(value) if isinstance(value, list) else value for value in parameters]
        )


def _array(values: list[Any]) -> Any:
    are_blobs = bool(values) and isinstance(values[0], bytes)
    return apsw.carray(tuple(values) if are_blobs else array("q", values))


_native = speedup("strandline.engine.sqlite.native")


def cursor(connection: apsw.Connection, *, is_patient: bool) -> Cursor:
    """The best cursor that there is; a patient one lets other threads run while it reads."""
    if _native is not None:
        try:
            made: Cursor = _native.Cursor(connection, is_patient)
        except (AttributeError, apsw.Error):  # this SQLite loads no extensions
            pass
        else:
            return made
    return ApswCursor(connection)
