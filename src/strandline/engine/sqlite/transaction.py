"""The transaction in which a handler works: a connection of its own, under the lock between processes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import apsw
import msgspec

from ...errors import InvalidInput, StoreClosed
from ..following import DeadLetter, FollowerRow, LeaseUse, transaction_is_over
from .connection import READER_CACHE_KIB, Connection, translated
from .file_lock import FileLock
from .log_file import LogFile
from .process import forked, process
from .statements import sql

IDLE_PENS = 4

_FIND = sql("follower_find")
_CREATE = sql("follower_create")
_SAVE = sql("follower_save")
_USE_LEASE = sql("follower_use_lease")
_FORGET = sql("follower_forget")
_FORGET_LETTERS = sql("dead_letters_forget")
_LETTER = sql("dead_letter_find")
_SAVE_LETTER = sql("dead_letter_save")
_REMOVE_LETTER = sql("dead_letter_remove")

# Not what a handler would write: what is prepared once is not judged again.
_BEGIN = "begin immediate -- for a handler"
_COMMIT = "commit -- for a handler"
_ROLL_BACK = "rollback -- for a handler"

_CHANGES = {
    apsw.SQLITE_INSERT,
    apsw.SQLITE_UPDATE,
    apsw.SQLITE_DELETE,
    apsw.SQLITE_DROP_TABLE,
    apsw.SQLITE_ALTER_TABLE,
}
_TABLES_OF_LOG = {
    *("log", "name", "event", "posting", "shape", "appended_tags", "snapshot"),
    *("follower", "dead_letter"),
}


class Pen:
    """What it takes to write: a connection and a lock that nobody else has."""

    def __init__(self, path: str, lock_timeout: float) -> None:
        self.connection = Connection(path, cache_kib=READER_CACHE_KIB)
        self.lock = FileLock(path, lock_timeout)
        self.is_in_own_hands = True
        self.connection.database.authorizer = self._authorize

    def _authorize(
        self, action: int, first: str | None, second: str | None, database: str | None, trigger: str | None
    ) -> int:
        """What a handler may do: anything but to end the transaction, or to change the tables of the log."""
        if self.is_in_own_hands:
            return apsw.SQLITE_OK
        table = second if action == apsw.SQLITE_ALTER_TABLE else first
        is_forbidden = action == apsw.SQLITE_TRANSACTION or (action in _CHANGES and table in _TABLES_OF_LOG)
        return apsw.SQLITE_DENY if is_forbidden else apsw.SQLITE_OK

    def run(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Run a statement of the store's own."""
        self.is_in_own_hands = True
        try:
            return self.connection.execute(statement, parameters)
        finally:
            self.is_in_own_hands = False

    def close(self) -> None:
        """Let go of both."""
        self.connection.close()
        self.lock.close()


class Pens:
    """The pens of a store: as many as there are transactions, and some for the next."""

    def __init__(self, path: str, file: LogFile, lock_timeout: float) -> None:
        self.path = path
        self.file = file
        self._lock_timeout = lock_timeout
        self._idle: list[Pen] = []
        self._is_closed = False
        self._is_inherited = False
        process.add(self)

    def leave_to_parent(self) -> None:
        """Make no more pens: one of this process would wait for the parent, which may wait for this process."""
        self._is_inherited = True

    def take(self) -> Pen:
        """One that nobody uses."""
        if self._is_inherited:
            raise forked()
        if self._is_closed:
            raise StoreClosed("the store is closed")
        try:
            return self._idle.pop()
        except IndexError:
            with self.file.opening():
                return Pen(self.path, self._lock_timeout)

    def give_back(self, pen: Pen, *, is_sound: bool) -> None:
        """Keep a pen for the next transaction, if the last one went well."""
        if not is_sound or self._is_closed or pen.connection.in_transaction or len(self._idle) >= IDLE_PENS:
            pen.close()
        else:
            self._idle.append(pen)

    def close(self) -> None:
        """Close those that are idle; the others are closed when they are given back."""
        self._is_closed = True
        process.remove(self)
        while self._idle:
            self._idle.pop().close()


class SqliteTransaction:
    """See `Transaction`."""

    _open: Pen | None = None  # also of one that an interrupt kept from being made

    def __init__(self, pens: Pens, now: Callable[[], int]) -> None:
        self._pens = pens
        self._is_committed = False
        self.now = now

    def begin(self) -> None:
        with translated(self._pens.path):
            pen = self._open = self._pens.take()
            pen.lock.acquire()
            self._pens.file.check()
            pen.run(_BEGIN)

    def commit(self) -> None:
        self._own(_COMMIT, ())
        self._is_committed = True

    def end(self) -> None:
        pen = self._open
        if pen is None:
            return
        try:
            with contextlib.suppress(apsw.Error):  # a pen whose work failed is not kept
                if pen.connection.in_transaction:
                    pen.run(_ROLL_BACK)
        finally:
            pen.lock.release()
        self._open = None  # now: if an interrupt comes before, the next call goes on
        self._pens.give_back(pen, is_sound=self._is_committed)

    def __del__(self) -> None:
        self.end()

    @property
    def _pen(self) -> Pen:
        if self._open is None:
            raise transaction_is_over()
        return self._open

    @property
    def connection(self) -> apsw.Connection:
        return self._pen.connection.database

    def execute(self, sql: str, parameters: Any = ()) -> list[Any]:
        return self._pen.connection.execute(sql, parameters)

    def execute_many(self, sql: str, rows: Sequence[Any]) -> None:
        self._pen.connection.run_many(sql, rows)

    def create(self, row: FollowerRow) -> None:
        self._own(_CREATE, msgspec.structs.astuple(row))

    def find(self, name: str) -> FollowerRow | None:
        with translated(self._pens.path):
            return next(iter(followers_of(self._own(_FIND, (name,)))), None)

    def save(self, row: FollowerRow) -> None:
        self._own(_SAVE, msgspec.structs.astuple(row))

    def forget(self, name: str) -> None:
        self._own(_FORGET_LETTERS, (name,))
        self._own(_FORGET, (name,))

    def use_leases(self, uses: Sequence[LeaseUse]) -> set[str]:
        now = self.now()
        found = [self._own(_USE_LEASE, (*msgspec.structs.astuple(use), now)) for use in uses]
        return {name for rows in found for (name,) in rows}

    def find_letter(self, follower: str, position: int) -> DeadLetter | None:
        with translated(self._pens.path):
            return next(iter(letters_of(self._own(_LETTER, (follower, position)))), None)

    def save_letter(self, letter: DeadLetter) -> None:
        self._own(_SAVE_LETTER, msgspec.structs.astuple(letter))

    def remove_letter(self, follower: str, position: int) -> None:
        self._own(_REMOVE_LETTER, (follower, position))

    def _own(self, statement: str, parameters: Sequence[Any]) -> list[Any]:
        pen = self._pen
        if not pen.connection.in_transaction:
            raise InvalidInput(
                "the transaction of a handler was ended before its time",
                hint="leave commit and rollback to the follower; savepoints are fine",
            )
        with translated(self._pens.path):
            return pen.run(statement, parameters)


def followers_of(rows: Sequence[Sequence[Any]]) -> list[FollowerRow]:
    """Rows of the table `follower`, which raise if their values are of other types than were written."""
    named = (dict(zip(FollowerRow.__struct_fields__, row, strict=True)) for row in rows)
    return [msgspec.convert(row | {"is_paused": bool(row["is_paused"])}, FollowerRow) for row in named]


def letters_of(rows: Sequence[Sequence[Any]]) -> list[DeadLetter]:
    """Rows of the table `dead_letter`."""
    return [
        msgspec.convert(dict(zip(DeadLetter.__struct_fields__, row, strict=True)), DeadLetter) for row in rows
    ]
