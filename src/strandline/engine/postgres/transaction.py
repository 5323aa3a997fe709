"""The transaction in which a handler works: a connection of its own, at read committed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
import psycopg
from psycopg.pq import TransactionStatus

from ...errors import InvalidInput, StoreClosed
from ..following import DeadLetter, FollowerRow, LeaseUse, transaction_is_over
from ..past import Past
from .address import Address
from .connection import Connection, Parameters
from .failures import is_lost, translate

IDLE_CONNECTIONS = 4
BEGIN = "begin isolation level read committed"


class Statements:
    """The statements about followers of one log."""

    def __init__(self, address: Address) -> None:
        self.followers = address.sql("followers")
        self.find = address.sql("follower_find")
        self.create = address.sql("follower_create")
        self.save = address.sql("follower_save")
        self.forget = address.sql("follower_forget")
        self.use_leases = address.sql("follower_use_leases")
        self.letters = address.sql("dead_letters")
        self.count_letters = address.sql("dead_letter_count")
        self.find_letter = address.sql("dead_letter_find")
        self.save_letter = address.sql("dead_letter_save")
        self.remove_letter = address.sql("dead_letter_remove")


class Connections:
    """The connections of transactions: as many as there are, and some for the next."""

    def __init__(self, address: Address, past: Past) -> None:
        self.address = address
        self.sql = Statements(address)
        self._past = past
        self._idle: list[Connection] = []
        self._is_closed = False

    def begin(self) -> Connection:
        """A connection in a new transaction; one that broke while nobody used it is replaced."""
        if self._is_closed:
            raise StoreClosed("the store is closed")
        self._past.check()
        while self._idle:
            with contextlib.suppress(IndexError):  # another thread was faster
                connection = self._idle.pop()
                try:
                    return self._begun(connection)
                except psycopg.Error as error:
                    if not is_lost(error):
                        raise
        return self._begun(Connection(self.address, self._past))

    def _begun(self, connection: Connection) -> Connection:
        try:
            connection.run(BEGIN)
            if not connection.has_past:
                connection.compare()
        except BaseException:
            connection.close()
            raise
        return connection

    def give_back(self, connection: Connection) -> None:
        """Somebody else may use it."""
        if self._is_closed or not connection.is_usable or len(self._idle) >= IDLE_CONNECTIONS:
            connection.close()
        else:
            self._idle.append(connection)

    def close(self) -> None:
        """Close those that are idle; the others are closed when they are given back."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().close()


class PostgresTransaction:
    """See `Transaction`."""

    def __init__(self, connections: Connections, given_time: Callable[[], int | None]) -> None:
        self._connections = connections
        self._sql = connections.sql
        self._given_time = given_time
        self._open: Connection | None = None

    def begin(self) -> None:
        with self._translated():
            self._open = self._connections.begin()

    def commit(self) -> None:
        connection = self._connection
        self._check_whole(connection)
        with self._translated(written=None):
            connection.run("commit")

    def end(self) -> None:
        connection = self._open
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                connection.raw.rollback()
            self._open = None  # now: if an interrupt comes before, the next call goes on
            self._connections.give_back(connection)

    @property
    def _connection(self) -> Connection:
        if self._open is None:
            raise transaction_is_over()
        return self._open

    @property
    def connection(self) -> psycopg.Connection[tuple[Any, ...]]:
        return self._connection.raw

    def execute(self, sql: str, parameters: Any = ()) -> list[Any]:
        cursor = self.connection.execute(sql, parameters or None)
        return cursor.fetchall() if cursor.description is not None else []

    def execute_many(self, sql: str, rows: Sequence[Any]) -> None:
        with self.connection.cursor() as cursor:
            cursor.executemany(sql, rows)

    def copy(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Send rows to a `copy … from stdin`, which takes many much faster than inserts do."""
        with self._translated(), self.connection.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)

    def now(self) -> int:
        given = self._given_time()
        if given is not None:
            return given
        ((now,),) = self._rows("select (extract(epoch from clock_timestamp()) * 1000000::numeric)::bigint")
        return int(now)

    def create(self, row: FollowerRow) -> None:
        self._run(self._sql.create, msgspec.structs.astuple(row))

    def find(self, name: str) -> FollowerRow | None:
        return next((FollowerRow(*row) for row in self._rows(self._sql.find, (name,))), None)

    def save(self, row: FollowerRow) -> None:
        self._run(self._sql.save, msgspec.structs.asdict(row))

    def forget(self, name: str) -> None:
        self._run(self._sql.forget, {"name": name})

    def use_leases(self, uses: Sequence[LeaseUse]) -> set[str]:
        columns = zip(*map(msgspec.structs.astuple, uses), strict=True)
        return {name for (name,) in self._rows(self._sql.use_leases, (*map(list, columns), self.now()))}

    def find_letter(self, follower: str, position: int) -> DeadLetter | None:
        rows = self._rows(self._sql.find_letter, (follower, position))
        return next((DeadLetter(*row) for row in rows), None)

    def save_letter(self, letter: DeadLetter) -> None:
        self._run(self._sql.save_letter, msgspec.structs.astuple(letter))

    def remove_letter(self, follower: str, position: int) -> None:
        self._run(self._sql.remove_letter, (follower, position))

    def _rows(self, statement: str, parameters: Parameters | None = None) -> list[tuple[Any, ...]]:
        connection = self._connection
        self._check_whole(connection)
        with self._translated():
            return connection.rows(statement, parameters)

    def _run(self, statement: str, parameters: Parameters) -> None:
        connection = self._connection
        self._check_whole(connection)
        with self._translated():
            connection.raw.execute(statement, parameters)

    def _check_whole(self, connection: Connection) -> None:
        match connection.raw.info.transaction_status:
            case TransactionStatus.IDLE:
                raise InvalidInput(
                    "the transaction of a handler was ended before its time",
                    hint="leave commit and rollback to the follower; tx.connection.transaction() nests",
                )
            case TransactionStatus.INERROR:
                raise InvalidInput(
                    "a statement of the handler failed, and with it the transaction",
                    hint="let the error pass, or wrap the statement: with tx.connection.transaction():",
                )

    @contextlib.contextmanager
    def _translated(self, *, written: bool | None = False) -> Iterator[None]:
        address = self._connections.address
        try:
            yield
        except psycopg.Error as error:
            raise translate(error, address, written=written) from error
