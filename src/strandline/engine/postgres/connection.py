"""Connections to a server: how they are made, and what they run."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import count
from typing import Any, Self

import psycopg
from psycopg import errors as pg
from psycopg.adapt import Transformer
from psycopg.generators import execute, fetch_many
from psycopg.pq import ExecStatus, Format, TransactionStatus
from psycopg.pq.abc import PGresult
from psycopg.waiting import Ready

from ...errors import InvalidInput
from ..past import Mark, Past
from ..statements import load
from .address import Address
from .binary import Value, bigint
from .failures import bad_setting, first_line

_OWN_PROCESS = load(__package__, "own_process")
_END_PROCESS = load(__package__, "end_process")
_READ_LIMIT = load(__package__, "read_limit")

_BINARY = Format.BINARY
STALE_STATEMENT = (pg.InvalidSqlStatementName, pg.FeatureNotSupported)

Parameters = Sequence[Any] | dict[str, Any]
Rows = list[tuple[Any, ...]]


class Connection:
    """One connection. Every call is a transaction of its own, unless `transaction` is open."""

    def __init__(self, address: Address, past: Past | None = None) -> None:
        self.address = address
        self.past = Past() if past is None else past
        self.in_transaction = False
        # Whether the server at the other end was seen to have the past. A pooler may give another server each time.
        self.has_past = False
        self._limit: dict[str, Any] | None = None
        self._connection = _connect(address)
        self._cursor = self._connection.cursor(binary=True)
        self._loading = Transformer(self._connection)
        self._prepared: dict[str, bytes] = {}
        self._numbers = count()
        # A pooler like pgbouncer gives each transaction another server process, so nothing may be kept there. Elsewhere
        # `call` prepares; psycopg must not, for it would deallocate everything now and then.
        try:
            self._refuse_other_encodings(address)
            (self._process,) = self.rows(_OWN_PROCESS)
        except BaseException:
            self.close()
            raise
        self.is_direct = self._process[0] == self._connection.info.backend_pid

    @property
    def raw(self) -> psycopg.Connection[tuple[Any, ...]]:
        """The connection of psycopg."""
        return self._connection

    def limit(self, seconds: float | None) -> None:
        """Let no later statement take longer. Behind a pooler that is said in each transaction, and of no other."""
        if seconds is None:
            return
        limit = {"milliseconds": math.ceil(seconds * 1_000), "is_local": not self.is_direct}
        if self.is_direct:
            self.rows(_READ_LIMIT, limit)
        else:
            self._limit = limit

    def rows(self, statement: str, parameters: Parameters | None = None) -> list[tuple[Any, ...]]:
        """All rows that a statement gives."""
        with self._limited():
            return self._cursor.execute(statement, parameters).fetchall()

    def _limited(self) -> AbstractContextManager[None]:
        return nullcontext() if self._limit is None or self.in_transaction else self._in_limit()

    @contextlib.contextmanager
    def _in_limit(self) -> Iterator[None]:
        """One transaction with the limit, around one statement."""
        self.run("begin")
        try:
            self._cursor.execute(_READ_LIMIT, self._limit)
            yield
            self.run("commit")
        except BaseException:
            with contextlib.suppress(psycopg.Error):
                self._connection.rollback()
            raise

    def call(self, statement: str, values: Sequence[Value] = ()) -> list[tuple[Any, ...]]:
        """Like `rows`, for what is called all the time: `$1`, `$2` … stand for the values."""
        if self._limit is not None and not self.in_transaction:
            with self._in_limit():
                return self._call(statement, values)
        try:
            return self._call(statement, values)
        except STALE_STATEMENT:
            # Somebody deallocated it, or changed what it stands for: from now on it is prepared anew. Nothing was run,
            # so it can be called again, unless the error ended a transaction.
            self._prepared.clear()
            if not self.is_usable:
                raise
            return self._call(statement, values)

    def _call(self, statement: str, values: Sequence[Value]) -> list[tuple[Any, ...]]:
        with self._connection.lock:
            if self.is_direct and statement not in self._prepared:
                name = self._send_prepare(statement, values)
                self._result(ExecStatus.COMMAND_OK)
                self._prepared[statement] = name
            self._send(statement, values)
            return self._rows(self._result(ExecStatus.TUPLES_OK))

    async def call_awaited(
        self, statement: str, calls: Sequence[Sequence[Value]]
    ) -> AsyncGenerator[Rows | None, None]:
        """Like `call` for each of several values, sent together, while the event loop watches the socket.

        Gives the rows of each as they come, None for one that failed. After an exception, or if not all are taken, the
        connection is of no use any more.
        """
        pgconn = self._connection.pgconn
        with _Answers(self._connection) as answers:
            if self.is_direct and statement not in self._prepared:
                name = self._send_prepare(statement, calls[0])
                self._checked(await answers.next(), ExecStatus.COMMAND_OK)
                self._prepared[statement] = name
            if len(calls) > 1:
                pgconn.enter_pipeline_mode()
            for values in calls:
                self._send(statement, values)
            if len(calls) > 1:
                pgconn.pipeline_sync()
            for _ in calls:
                result = (await answers.next())[-1]
                if result.status != ExecStatus.TUPLES_OK:
                    self._prepared.clear()  # perhaps somebody deallocated it, or changed what it stands for
                    yield None
                else:
                    yield self._rows(result)
            if len(calls) > 1:
                await answers.next()  # which says that there are no more
                pgconn.exit_pipeline_mode()

    def _send(self, statement: str, values: Sequence[Value]) -> None:
        data, formats = [data for _, data in values], [_BINARY] * len(values)
        if self.is_direct:
            self._connection.pgconn.send_query_prepared(self._prepared[statement], data, formats, _BINARY)
        else:
            types = [type_ for type_, _ in values]
            self._connection.pgconn.send_query_params(statement.encode(), data, types, formats, _BINARY)

    def _rows(self, result: PGresult) -> list[tuple[Any, ...]]:
        self._loading.set_pgresult(result)
        rows = self._loading.load_rows(0, result.ntuples, tuple)
        self._loading.set_pgresult(None)  # else it would keep the page until the next call
        return rows

    def _refuse_other_encodings(self, address: Address) -> None:
        """Text is sent as UTF-8; a pooler may ignore that we asked for it."""
        if self._connection.info.encoding != "utf-8":
            raise InvalidInput(
                f"the connection to {address.server} has the encoding {self._connection.info.encoding}, not UTF8",
                hint="let the pooler pass client_encoding on",
            )

    def _send_prepare(self, statement: str, values: Sequence[Value]) -> bytes:
        name = f"strandline_{next(self._numbers)}".encode()
        self._connection.pgconn.send_prepare(name, statement.encode(), [type_ for type_, _ in values])
        return name

    def _result(self, expected: ExecStatus) -> PGresult:
        return self._checked(self._connection.wait(execute(self._connection.pgconn)), expected)

    def _checked(self, results: list[PGresult], expected: ExecStatus) -> PGresult:
        result = results[-1]
        if result.status != expected:
            raise pg.error_from_result(result, encoding=self._connection.info.encoding)
        return result

    def run(self, statement: str) -> None:
        """Run statements that give nothing back."""
        self._connection.execute(statement, prepare=False)

    def transaction(self) -> AbstractContextManager[None]:
        """One transaction around several calls: committed at the end, undone by an exception."""
        return self._transaction("begin isolation level read committed")

    def reading(self) -> AbstractContextManager[None]:
        """One transaction that changes nothing; a statement that waits for a lock sees what was committed meanwhile."""
        return self._transaction("begin isolation level read committed read only")

    def snapshot(self) -> AbstractContextManager[None]:
        """One state of the database for several calls that only read."""
        return self._transaction("begin isolation level repeatable read read only")

    @contextlib.contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        self.run(begin)
        self.in_transaction = True
        try:
            if self._limit is not None:
                self._cursor.execute(_READ_LIMIT, self._limit)
            yield
            self.run("commit")
        except BaseException:
            with contextlib.suppress(psycopg.Error):
                self._connection.rollback()
            raise
        finally:
            self.in_transaction = False

    @property
    def is_usable(self) -> bool:
        """Whether it can be used again."""
        return (
            not self._connection.closed and self._connection.info.transaction_status == TransactionStatus.IDLE
        )

    def notifications(self, seconds: float) -> bool:
        """Wait for a notification that this connection listens for; False if none came."""
        return any(True for _ in self._connection.notifies(timeout=seconds, stop_after=1))

    def fits_past(self, mark: Mark, head: int, head_id: bytes | None, proof: bytes | None) -> bool:
        """Whether a snapshot of the log fits the mark from before it was taken. Then its head becomes the mark.

        The proof is the id of the event at the mark. A connection that is known to have the past needs none.
        """
        if self.in_transaction:  # which may see events that are not committed
            return True
        fits = head >= mark.position and (mark.position == 0 or self.has_past or proof == mark.id)
        if head == mark.position and mark.position > 0 and head_id is not None:
            fits = head_id == mark.id
        self.has_past = fits and self.is_direct
        if fits and head_id is not None:
            self.past.saw(head, head_id)
        return fits

    def compare(self) -> bool:
        """Raise if the log lost events that this store has seen; False if this is a replica that is behind."""
        mark = self.past.mark
        ((id_, head, is_replica),) = self.call(self.address.sql("compare"), (bigint(mark.position),))
        has_past = mark.position == 0 or id_ == mark.id
        self.has_past = has_past and self.is_direct
        if has_past or (id_ is None and is_replica):
            return bool(has_past)
        if id_ is None:
            loss = f"this store has seen event {mark.position}, and the log ends at {head} now"
        else:
            loss = f"event {mark.position} is not the one that this store has seen there"
        raise self.past.lose(f"{self.address} went back in time: {loss}")

    def end_process(self, other: Connection) -> None:
        """End the server's part of this broken connection through another one; a pooler does that itself."""
        if self.is_direct:
            other.rows(_END_PROCESS, self._process)

    def close(self) -> None:
        """Close it."""
        self._connection.close()


LOOK_SECONDS = 1.0
"""Who waits for an answer looks at the socket this often, whatever the event loop says."""


class _Answers:
    """What a server answers, awaited."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._pgconn = connection.pgconn
        self._socket = connection.fileno()
        self._loop = asyncio.get_running_loop()
        self._news: asyncio.Future[None] = self._loop.create_future()

    def __enter__(self) -> Self:
        self._loop.add_reader(self._socket, self._tell)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.remove_reader(self._socket)

    def _tell(self) -> None:
        if not self._news.done():
            self._news.set_result(None)

    async def _wait(self) -> None:
        self._news = self._loop.create_future()
        # uvloop tells only once that a connection was reset, also if there is something to read before that.
        timer = self._loop.call_later(LOOK_SECONDS, self._tell)
        try:
            await self._news
        finally:
            timer.cancel()

    async def next(self) -> list[PGresult]:
        """The results of the next question."""
        while self._pgconn.flush():  # questions that do not fit into the socket's buffer
            self._loop.add_writer(self._socket, self._tell)
            try:
                await self._wait()
            finally:
                self._loop.remove_writer(self._socket)
            self._pgconn.consume_input()  # or the server would wait for us to take its first answers
        steps = fetch_many(self._pgconn)
        try:
            next(steps)
            while True:
                await self._wait()
                steps.send(Ready.R)
        except StopIteration as end:
            results: list[PGresult] = end.value
            return results


def _connect(address: Address) -> psycopg.Connection[tuple[Any, ...]]:
    try:
        return psycopg.connect(address.conninfo, autocommit=True, prepare_threshold=None)
    except psycopg.Error as error:
        # What is raised is new: this one has the connection, and shows the password to whoever prints it all.
        failure = type(error)(str(error))
    if isinstance(failure, psycopg.ProgrammingError):
        raise bad_setting(first_line(failure), address)
    raise failure
