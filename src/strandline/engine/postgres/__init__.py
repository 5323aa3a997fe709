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
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

import msgspec
import psycopg
from psycopg import errors as pg

from ...activity import AT_WORK, doing
from ...append import AppendCondition, AppendResult, Check, RecordedAppend
from ...errors import AppendConditionFailed, StoreClosed, StrandlineError, Unavailable
from ...event import SequencedEvent
from ...query import Query
from ...retag import Retag
from .. import Batch, Outcome, Page, Snapshot, Span, Stats, Usage, Work
from ..deadline import Deadline
from ..dry_run import dry_run
from ..effort import SHORT_READ, is_long, is_looked_up
from ..following import DeadLetter, FollowerRow, not_answered
from ..past import Past
from ..rules import LOCK_SECONDS, Time
from .address import Address
from .attempt import Attempt, Pauses
from .awaiting import AwaitedReads
from .connection import Connection, Parameters
from .failures import first_line, is_lost, translate, translated
from .news import Listener, Notifier
from .readers import Readers
from .schema import prepare
from .search import Search, Statements
from .transaction import Connections, PostgresTransaction
from .writer import Writer

COUNT_REFUSED_EVERY_SECONDS = 1.0

T = TypeVar("T")


class PostgresEngine:
    """A log in a database."""

    name = "postgres"
    is_shared = True
    is_far = False
    runs_callables = True
    max_data_bytes = None

    def __init__(
        self,
        url: str,
        time: Time,
        *,
        log: str = "default",
        record_conditions: bool = True,
        create: bool = True,
        lock_timeout: float = LOCK_SECONDS,
        read_seconds: float | None = None,
    ) -> None:
        self.read_seconds = read_seconds
        self.url, self.log = url, log
        self._address = Address(url, log)
        self._sql = Statements(self._address, lock_timeout)
        self._lock_timeout = lock_timeout
        self._time = time
        self._record_conditions = record_conditions
        self._is_closed = False
        self._lock = threading.Lock()  # guards the writing connection
        self._connection: Connection | None = None
        self._writer: Writer | None = None
        self._past = Past()
        self._readers = Readers(self._address, self._past, read_seconds)
        self._long_readers = Readers(
            self._address, self._past, read_seconds
        )  # so that short reads never wait for long ones
        self._awaited = AwaitedReads(self._sql, self._take_idle, partial(self._give_back, self._readers))
        self._transactions = Connections(self._address, self._past)
        self._refused = 0
        self._count_refused_at = 0.0
        self._listener = Listener(self._address)
        with translated(self._address):
            connection = Connection(self._address, self._past)
            try:
                prepare(connection, self._address, create=create)
                self._known_head = Search(connection, self._sql).head()
                connection.limit(read_seconds)  # now: to open a log may take longer
            except BaseException:
                connection.close()
                raise
            self._readers.add(connection)
            # A pooler needs to hear of the limit in each transaction, which reads that are sent together have not.
            self._can_await = connection.is_direct or read_seconds is None
        self._notifier = Notifier(
            lambda: self._ask(self._notify)
        )  # last: a log that cannot be opened needs none

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
                if isinstance(error, pg.LockNotAvailable):
                    ours = self._lock_is_kept()
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
        for work, outcome in zip(batch, outcomes, strict=True):
            events = attempt.retags.get(id(work), ()) if isinstance(work, Retag) else work.events
            if isinstance(outcome, AppendResult) and events and not outcome.duplicate:
                self._past.saw(outcome.last, events[-1].raw_id)
        with contextlib.suppress(StrandlineError):  # the batch is written
            self._see(max(map(_newest, outcomes)))
        return outcomes

    def _lock_is_kept(self) -> Unavailable:
        """The error for a lock that another session has had for too long."""
        holder, hint = "another session", "end the session that keeps it"
        with contextlib.suppress(StrandlineError, psycopg.Error):
            for process, name, address in self._ask(lambda search: search.rows(self._sql.lock_holder)):
                about = " from ".join(filter(None, (name, address)))
                holder = f"process {process} of the server{f' ({about})' if about else ''}"
                hint = f"if it hangs, end it: select pg_terminate_backend({process})"
        return Unavailable(
            f"{holder} has kept the lock of {self._address} for too long",
            hint=f"{hint}. Then send the same again. connect(lock_timeout=…) sets how long to wait,"
            f" here {self._lock_timeout:g} s, unless the session's own lock_timeout is shorter",
        )

    def _see(self, position: int) -> None:
        """Have the event at a position, or a newer one, be the mark, before anybody is given the position."""
        if position > self._past.mark.position:
            self.head()

    def _writing(self, attempt: Attempt) -> Writer:
        """The writer, with a connection that works as far as is known."""
        self._check_open()
        self._drop_if_broken()  # an interrupt may have left a transaction open
        if self._connection is None:
            connection = Connection(self._address, self._past)
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

    @property
    def is_lost(self) -> bool:
        return self._past.is_lost

    def log_id(self) -> UUID:
        return self._ask(Search.log_id)

    def head(self) -> int:
        return self._ask(Search.head, compares=True)

    def read_page(self, query: Query, span: Span, size: int) -> Page:
        takes_long = is_long(query, size) or not is_looked_up(query)
        return self._ask(
            lambda search: search.read_page(query, span, size), compares=True, is_long=takes_long
        )

    async def read_page_awaited(self, query: Query, span: Span, size: int) -> Page | None:
        return await self._awaited.page(query, span, size) if self._can_await else None

    def exists(self, query: Query, after: int) -> bool:
        takes_long = is_long(query) or not is_looked_up(query)
        first = self._ask(lambda search: search.first(query, after), compares=True, is_long=takes_long)
        return first is not None

    def count(self, query: Query, after: int) -> int:
        return self._ask(lambda search: search.count(query, after), is_long=not query.is_all)

    def check(self, condition: AppendCondition, most: int) -> Check:
        def ask(search: Search) -> Check:
            with search.snapshot():
                return dry_run(search, condition, most)

        found = self._ask(ask, is_long=True)
        self._see(found.head)
        return found

    def tracked(self, source: str) -> int | None:
        return self._ask(lambda search: search.tracked(source))

    def now(self) -> int:
        given = self._time.given()
        return self._ask(Search.now) if given is None else given

    def position_at(self, microseconds: int) -> int:
        position = self._ask(lambda search: search.position_at(microseconds))
        self._see(position)
        return position

    def appends_page(self, span: Span, size: int) -> list[RecordedAppend]:
        page = self._ask(lambda search: search.appends_page(span, size), is_long=True)
        self._see(max((append.last for append in page), default=0))
        return page

    def append_holding(self, position: int) -> RecordedAppend | None:
        found = self._ask(lambda search: search.append_holding(position))
        self._see(0 if found is None else found.last)
        return found

    def types_page(self, prefix: str, after: str, size: int) -> list[Usage]:
        return self._seen(self._ask(lambda search: search.types_page(prefix, after, size), is_long=True))

    def tags_page(self, prefix: str, after: str, size: int) -> list[Usage]:
        return self._seen(self._ask(lambda search: search.tags_page(prefix, after, size), is_long=True))

    def _seen(self, page: list[Usage]) -> list[Usage]:
        self._see(max((usage.last for usage in page), default=0))
        return page

    def events_at(self, positions: Sequence[int]) -> list[SequencedEvent]:
        return self._ask(lambda search: search.events_at(positions), is_long=len(positions) > SHORT_READ)

    def events_with_ids(self, ids: Sequence[bytes]) -> list[SequencedEvent]:
        return self._ask(lambda search: search.events_with_ids(ids), is_long=len(ids) > SHORT_READ)

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

        return self._ask(ask, is_long=True)

    def dead_letters(self, follower: str) -> list[DeadLetter]:
        return [DeadLetter(*row) for row in self._rows(self._transactions.sql.letters, (follower,))]

    def count_dead_letters(self, follower: str) -> int:
        return int(self._rows(self._transactions.sql.count_letters, (follower,))[0][0])

    def _rows(self, statement: str, parameters: Parameters) -> list[tuple[Any, ...]]:
        return self._ask(lambda search: search.rows(statement, parameters))

    def stats(self) -> Stats:
        now = self.now()
        stats = self._ask(
            lambda search: search.stats(now, record_conditions=self._record_conditions), is_long=True
        )
        self._see(stats.head)
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

    def _ask(self, question: Callable[[Search], T], *, compares: bool = False, is_long: bool = False) -> T:
        """The answer, over another connection if one breaks; `compares` if it shows by itself that the log has its past."""
        readers = self._long_readers if is_long else self._readers
        return doing(AT_WORK, self._answer, question, readers, compares)

    def _answer(self, question: Callable[[Search], T], readers: Readers, compares: bool) -> T:  # noqa: FBT001
        pauses = Pauses()
        while True:
            deadline = Deadline(self.read_seconds)
            try:
                with self._reading(readers) as connection:
                    if not (compares or connection.has_past):
                        connection.compare()
                    return question(Search(connection, self._sql, deadline))
            except psycopg.Error as error:
                if isinstance(error, pg.QueryCanceled):
                    deadline.check()
                if is_lost(error):
                    self._close_idle()
                    if pauses.sleep():
                        continue
                raise translate(error, self._address) from error

    @contextlib.contextmanager
    def _reading(self, readers: Readers) -> Iterator[Connection]:
        connection = self._take(readers)
        try:
            yield connection
        finally:
            self._give_back(readers, connection)

    def _give_back(self, readers: Readers, connection: Connection) -> None:
        readers.give_back(connection, is_wanted=not self._is_closed)

    def _take_idle(self) -> Connection | None:
        return None if self._is_closed or self._past.is_lost else self._readers.idle.get_nowait()

    def _take(self, readers: Readers) -> Connection:
        while True:
            self._check_open()
            self._awaited.forget_closed_loop()
            if (connection := readers.take()) is not None:
                return connection

    def _close_idle(self) -> None:
        self._readers.close_idle()
        self._long_readers.close_idle()

    def _notify(self, search: Search) -> None:
        search.notify(self._address.schema)

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreClosed("the store is closed")
        self._past.check()


def _newest(outcome: Outcome) -> int:
    """The newest position that an outcome speaks of."""
    match outcome:
        case AppendResult():
            return outcome.last
        case AppendConditionFailed():
            return outcome.conflict.position
    return 0
