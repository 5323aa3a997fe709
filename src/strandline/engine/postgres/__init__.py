"""The PostgreSQL engine: a log is a schema of a database, for any number of threads, processes and machines.

The only place that imports psycopg. Appends go through one connection, one call of one function per
batch; reads have connections of their own. A connection that breaks is made again; an append whose
outcome nobody learnt is sent again, for its event ids tell whether it was written.
"""

from __future__ import annotations

import contextlib
import threading
import time as clock
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar
from uuid import UUID
from weakref import WeakSet

import msgspec
import psycopg

from ...append import AppendResult, RecordedAppend
from ...errors import AppendConditionFailed, StoreClosed, StrandlineError, Unavailable
from ...event import SequencedEvent
from ...query import Query
from .. import Batch, Outcome, Page, Snapshot, Span, Stats, Work
from ..following import DeadLetter, FollowerRow, not_answered
from ..rules import Time
from .address import Address
from .attempt import Attempt, Pauses
from .awaiting import AwaitedReads
from .connection import Connection, Parameters
from .failures import first_line, is_lost, translate, translated
from .idle import IdleConnections
from .news import Listener, Notifier
from .schema import prepare
from .search import Search, Statements
from .transaction import Connections, PostgresTransaction
from .writer import Writer

READERS = 8
WAIT_FOR_READER_SECONDS = 0.05
COUNT_REFUSED_EVERY_SECONDS = 1.0

T = TypeVar("T")


class PostgresEngine:
    """A log in a database."""

    name = "postgres"
    is_shared = True

    def __init__(
        self,
        url: str,
        time: Time,
        *,
        log: str = "default",
        record_conditions: bool = True,
        create: bool = True,
    ) -> None:
        self.url, self.log = url, log
        self._address = Address(url, log)
        self._sql = Statements(self._address)
        self._time = time
        self._record_conditions = record_conditions
        self._is_closed = False
        # Who is interrupted between taking a connection and using it loses it; then it is collected, and no longer
        # counted. (A semaphore would lose a permit for ever.)
        self._idle = IdleConnections()
        self._reading_connections: WeakSet[Connection] = WeakSet()
        self._awaited = AwaitedReads(self._sql, self._take_idle, self._give_back)
        self._lock = threading.Lock()  # guards the writing connection
        self._connection: Connection | None = None
        self._writer: Writer | None = None
        self._transactions = Connections(self._address)
        self._refused = 0
        self._count_refused_at = 0.0
        self._listener = Listener(self._address)
        with translated(self._address):
            connection = Connection(self._address)
            try:
                prepare(connection, self._address, create=create)
            except BaseException:
                connection.close()
                raise
            self._reading_connections.add(connection)
            self._idle.put(connection)
        self._known_head = self.head()
        self._notifier = Notifier(
            lambda: self._ask(self._notify)
        )  # last: a log that cannot be opened needs none

    is_interrupted = False  # who asks meanwhile has another connection

    def append(self, batch: Batch) -> list[Outcome]:
        with self._lock:
            outcomes = self._append(batch())
        if any(isinstance(outcome, AppendResult) and not outcome.duplicate for outcome in outcomes):
            self._notifier.tell()
        return outcomes

    def _append(self, batch: Sequence[Work]) -> list[Outcome]:
        attempt = Attempt(self._known_head, self._refusals_to_count())
        while True:
            try:
                writer = self._writing(attempt)
                refused = 0 if attempt.is_unknown else attempt.refused
                outcomes = attempt.own(batch, writer.write(batch, attempt.retags, refused), writer)
                break
            except psycopg.Error as error:
                if is_lost(error) and self._connection is not None:
                    attempt.was_lost(self._connection)
                self._drop_if_broken()
                if is_lost(error) and attempt.pauses.sleep():
                    continue
                ours = translate(error, self._address)
                if attempt.is_unknown and not (isinstance(ours, Unavailable) and ours.written is None):
                    # Whatever went wrong since, an earlier try may have been written.
                    ours = Unavailable(f"nobody knows whether it was written: {ours}", written=None)
                raise ours from error
            except BaseException:
                self._drop_if_broken()
                raise
        self._refused += sum(isinstance(outcome, AppendConditionFailed) for outcome in outcomes)
        self._refused -= attempt.refused if attempt.was_written or not attempt.is_unknown else 0
        written = [outcome.last for outcome in outcomes if isinstance(outcome, AppendResult)]
        self._known_head = max(self._known_head, *written, 0)
        return outcomes

    def _writing(self, attempt: Attempt) -> Writer:
        """The writer, with a connection that works as far as is known."""
        self._check_open()
        if self._connection is None:
            connection = Connection(self._address)
            try:
                attempt.end_lost(connection)
            except BaseException:
                connection.close()
                raise
            self._writer = Writer(
                connection, self._sql, self._time, record_conditions=self._record_conditions
            )
            self._connection = connection
        return self._writer  # type: ignore[return-value]

    def _drop_if_broken(self) -> None:
        if self._connection is not None and not self._connection.is_usable:
            self._connection.close()
            self._connection = None

    def _refusals_to_count(self) -> int:
        """The refusals to write down now; not each at once, for it costs a write of its own."""
        if not self._refused or clock.monotonic() < self._count_refused_at:
            return 0
        self._count_refused_at = clock.monotonic() + COUNT_REFUSED_EVERY_SECONDS
        return self._refused

    def log_id(self) -> UUID:
        return self._ask(Search.log_id)

    def head(self) -> int:
        return self._ask(Search.head)

    def read_page(self, query: Query, span: Span, size: int) -> Page:
        return self._ask(lambda search: search.read_page(query, span, size))

    async def read_page_awaited(self, query: Query, span: Span, size: int) -> Page | None:
        return await self._awaited.page(query, span, size)

    def exists(self, query: Query, after: int) -> bool:
        return self._ask(lambda search: search.first(query, after)) is not None

    def count(self, query: Query) -> int:
        return self._ask(lambda search: search.count(query))

    def now(self) -> int:
        given = self._time.given()
        return self._ask(Search.now) if given is None else given

    def position_at(self, microseconds: int) -> int:
        return self._ask(lambda search: search.position_at(microseconds))

    def appends_page(self, after: int, size: int) -> list[RecordedAppend]:
        return self._ask(lambda search: search.appends_page(after, size))

    def events_with_ids(self, ids: Sequence[bytes]) -> list[SequencedEvent]:
        return self._ask(lambda search: search.events_with_ids(ids))

    def load_snapshot(self, projection: str, key: str) -> Snapshot | None:
        return self._ask(lambda search: search.load_snapshot(projection, key))

    def save_snapshot(self, snapshot: Snapshot) -> None:
        self._ask(lambda search: search.save_snapshot(snapshot))

    def transaction(self) -> PostgresTransaction:
        return PostgresTransaction(self._transactions, self._time.given)

    def followers(self, name: str | None = None) -> list[FollowerRow]:
        return [FollowerRow(*row) for row in self._rows(self._transactions.sql.followers, {"name": name})]

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        def ask(search: Search) -> list[Any]:
            try:
                with search.reading():
                    return search.rows(sql, parameters or None)
            except (psycopg.ProgrammingError, psycopg.DataError, psycopg.InternalError) as error:
                raise not_answered(first_line(error)) from error

        return self._ask(ask)

    def dead_letters(self, follower: str) -> list[DeadLetter]:
        return [DeadLetter(*row) for row in self._rows(self._transactions.sql.letters, (follower,))]

    def count_dead_letters(self, follower: str) -> int:
        return int(self._rows(self._transactions.sql.count_letters, (follower,))[0][0])

    def _rows(self, statement: str, parameters: Parameters) -> list[tuple[Any, ...]]:
        return self._ask(lambda search: search.rows(statement, parameters))

    def stats(self) -> Stats:
        stats = self._ask(Search.stats)
        return msgspec.structs.replace(stats, refused=stats.refused + self._refused)

    def pause(self) -> None:
        self._listener.wait()

    def leave_to_parent(self) -> None:
        """The connections are the parent's; nothing is sent over them, not even a farewell."""

    def close(self) -> None:
        self._notifier.close()
        with self._lock:
            self._count_refused_at = 0.0
            with contextlib.suppress(StrandlineError, psycopg.Error):  # a lost count is no reason to fail
                if self._refused and self._connection is not None and self._writer is not None:
                    self._writer.count_refused(self._refused)
            self._is_closed = True
            self._listener.close()
            self._transactions.close()
            if self._connection is not None:
                self._connection.close()
            self._awaited.forget_closed_loop()
            self._close_idle()

    def _ask(self, question: Callable[[Search], T]) -> T:
        """The answer, over another connection if one breaks."""
        pauses = Pauses()
        while True:
            try:
                with self._reading() as connection:
                    return question(Search(connection, self._sql))
            except psycopg.Error as error:
                if is_lost(error):
                    self._close_idle()
                    if pauses.sleep():
                        continue
                raise translate(error, self._address) from error

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Connection]:
        connection = self._take()
        try:
            yield connection
        finally:
            self._give_back(connection)

    def _give_back(self, connection: Connection) -> None:
        if connection.is_usable and not self._is_closed:
            self._idle.put(connection)
        else:
            connection.close()
            self._reading_connections.discard(connection)

    def _take_idle(self) -> Connection | None:
        return None if self._is_closed else self._idle.get_nowait()

    def _take(self) -> Connection:
        """A connection that nobody uses: an idle one, a new one, or the next that is given back."""
        while True:
            self._check_open()
            self._awaited.forget_closed_loop()
            is_full = len(self._reading_connections) >= READERS
            found = self._idle.get(WAIT_FOR_READER_SECONDS) if is_full else self._idle.get_nowait()
            if found is not None:
                return found
            if not is_full:
                connection = Connection(self._address)
                self._reading_connections.add(connection)
                return connection

    def _close_idle(self) -> None:
        while (connection := self._idle.get_nowait()) is not None:
            connection.close()
            self._reading_connections.discard(connection)

    def _notify(self, search: Search) -> None:
        search.notify(self._address.schema)

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreClosed("the store is closed")
