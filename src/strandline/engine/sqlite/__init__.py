"""The SQLite engine: a durable log in one file, for any number of threads and processes.

The only place that imports apsw. Writes go through one connection under a lock between processes;
short reads use the same connection while nobody writes, because its page cache is warm (event loops, which
cannot wait, have a second one for when somebody does), and long ones have connections of their own.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time as clock
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

import apsw
import msgspec

from ...activity import AT_WORK, current, doing, may_write
from ...append import AppendCondition, Check, RecordedAppend
from ...errors import CorruptLog, StoreClosed, Unavailable
from ...event import SequencedEvent, from_microseconds
from ...query import Query
from .. import Batch, Outcome, Page, Snapshot, Span, Stats, Usage
from ..deadline import Deadline
from ..dry_run import dry_run
from ..effort import SHORT_READ, is_long, is_looked_up
from ..following import DeadLetter, FollowerRow, not_answered
from ..notes import time_of
from ..rules import LOCK_SECONDS, Time
from .appends import append_holding, recorded_appends
from .awaiting import AwaitedReads
from .catalogue import Catalogue
from .connection import (
    READER_CACHE_KIB,
    WRITER_CACHE_KIB,
    Connection,
    check_file,
    create_file,
    is_writable,
    translate,
    translated,
)
from .file_lock import FileLock
from .log_file import LogFile
from .names import Names
from .recent import Recent
from .schema import check_version, found_version, prepare, version, version_of
from .search import Search
from .statements import sql
from .transaction import Pens, SqliteTransaction, followers_of, letters_of
from .writer import TRACKED, Writer

T = TypeVar("T")
IDLE_READERS = 4
LOOK_EVERY_SECONDS = 0.02

_LOG_ID = sql("log_id")
_HEAD = sql("head")
_LAST_APPEND = sql("last_append")
_EVENTS_WITH_IDS = sql("events_with_ids")
_RECORDED_AT = sql("recorded_at")
_STATS = sql("stats")
_SNAPSHOT_LOAD = sql("snapshot_load")
_SNAPSHOT_SAVE = sql("snapshot_save")
_NOTE_SAVE = sql("note_save")
_FOLLOWERS = sql("followers")
_DEAD_LETTERS = sql("dead_letters")
_DEAD_LETTER_COUNT = sql("dead_letter_count")


class SqliteEngine:
    """A log in a file."""

    name = "sqlite"
    log = "default"
    is_shared = True
    is_far = False
    runs_callables = True
    max_data_bytes = None

    def __init__(
        self,
        path: str,
        time: Time,
        *,
        record_conditions: bool = True,
        create: bool = True,
        lock_timeout: float = LOCK_SECONDS,
        read_seconds: float | None = None,
    ) -> None:
        self.read_seconds = read_seconds
        check_file(path, create=create)
        # Without links: whoever opens the file by another name waits for the same lock.
        self.url = self._path = os.path.realpath(path)
        self._time = time
        self._record_conditions = record_conditions
        self._names = Names()
        self._recent = Recent(self._names)
        # First the turn of this process, then the lock between processes, then the connection: who reads through it
        # never waits for another process, nor for a handler that is at work.
        # Each is taken by `with` only, which no interrupt can split.
        self._turn = threading.Lock()
        self._lock = threading.Lock()
        self._beside = threading.Lock()
        self._reads_beside: Search | None = None
        self._awaited = AwaitedReads(self._look_at_once)
        self._file_lock = FileLock(self._path, lock_timeout)
        self._readers: list[Connection] = []
        self._file = LogFile(self._path)
        self._pens = Pens(self._path, self._file, lock_timeout)
        self._is_closed = False
        with translated(self._path):
            self._connection = self._open(create=create)
        self._search = Search(self._connection, self._names, self._recent)
        self._writer = Writer(
            self._connection,
            self._file_lock,
            self._names,
            self._recent,
            time,
            record_conditions=record_conditions,
        )

    def _open(self, *, create: bool) -> Connection:
        if os.path.exists(self._path) and not is_writable(self._path):
            connection = self._connect(writable=False)
            check_version(version_of(connection, self._path), self._path)
            return connection
        found = found_version(self._path)
        if found:  # it is made already: no need to wait for whoever writes just now
            check_version(found, self._path)
            return self._connect()
        with self._file_lock:
            create_file(self._path)
            connection = self._connect()
            try:
                prepare(connection, self._path, create=create)
            except BaseException:
                connection.close()
                raise
        return connection

    def _connect(self, *, writable: bool = True) -> Connection:
        with self._file.opening():
            return Connection(self._path, cache_kib=WRITER_CACHE_KIB, writable=writable, is_patient=False)

    @property
    def is_lost(self) -> bool:
        return self._file.past.is_lost

    def append(self, batch: Batch) -> list[Outcome]:
        self._check_writable()
        try:
            with self._turn:
                return self._file_lock.hold(self._append, batch)
        except Exception as error:
            ours = translate(error, self._path, written=None)
            if ours is None:
                raise
            raise ours from error

    def _append(self, batch: Batch) -> list[Outcome]:
        works = batch()
        self._file.check()
        with self._lock:
            return self._writer.write(works)

    def log_id(self) -> UUID:
        def ask(search: Search) -> UUID:
            ((log,),) = search.connection.rows(_LOG_ID)
            return UUID(bytes=log, version=4)

        return self._ask(ask)

    def head(self) -> int:
        return self._ask(lambda search: int((search.connection.rows(_HEAD) or [[0]])[0][0]))

    def read_page(self, query: Query, span: Span, size: int) -> Page:
        return self._look(
            lambda search: search.read_page(query, span, size),
            is_long=is_long(query, size),
            may_be_long=not is_looked_up(query),
        )

    async def read_page_awaited(self, query: Query, span: Span, size: int) -> Page | None:
        if is_long(query, size) or not is_looked_up(query) or not self._recent.is_loaded:
            return None
        return await self._awaited.page(query, span, size)

    def exists(self, query: Query, after: int) -> bool:
        first = self._look(
            lambda search: search.first(query, after),
            is_long=is_long(query),
            may_be_long=not is_looked_up(query),
        )
        return first is not None

    def count(self, query: Query, after: int) -> int:
        return self._look(lambda search: search.count(query, after), is_long=not query.is_all)

    def check(self, condition: AppendCondition, most: int) -> Check:
        return self._look(lambda search: dry_run(search, condition, most), is_long=True)

    def tracked(self, source: str) -> int | None:
        rows = self._ask(lambda search: search.connection.rows(TRACKED, (source,)))
        return int(rows[0][0]) if rows else None

    def now(self) -> int:
        return self._time.now(0)

    def position_at(self, microseconds: int) -> int:
        def find(search: Search) -> int:
            low, high = 0, search.head
            while low < high:
                middle = (low + high + 1) // 2
                if search.connection.rows(_RECORDED_AT, (middle,))[0][0] <= microseconds:
                    low = middle
                else:
                    high = middle - 1
            return low

        return self._look(find)

    def appends_page(self, span: Span, size: int) -> list[RecordedAppend]:
        return self._look(
            lambda search: recorded_appends(search.connection, self._names, span, size), is_long=True
        )

    def append_holding(self, position: int) -> RecordedAppend | None:
        return self._look(lambda search: append_holding(search.connection, self._names, position))

    def types_page(self, prefix: str, after: str, size: int) -> list[Usage]:
        return self._look(lambda search: Catalogue(search).types(prefix, after, size), is_long=True)

    def tags_page(self, prefix: str, after: str, size: int) -> list[Usage]:
        return self._look(lambda search: Catalogue(search).tags(prefix, after, size), is_long=True)

    def events_at(self, positions: Sequence[int]) -> list[SequencedEvent]:
        return self._look(lambda search: search.events_at(positions), is_long=len(positions) > SHORT_READ)

    def events_with_ids(self, ids: Sequence[bytes]) -> list[SequencedEvent]:
        if not ids:
            return []
        wanted = list(ids)
        return self._look(
            lambda search: search.connection.events(_EVENTS_WITH_IDS, (wanted,)),
            is_long=len(wanted) > SHORT_READ,
        )

    def load_snapshot(self, projection: str, key: str) -> Snapshot | None:
        rows = self._ask(lambda search: search.connection.rows(_SNAPSHOT_LOAD, (projection, key)))
        return Snapshot(*rows[0]) if rows else None

    def save_snapshot(self, snapshot: Snapshot) -> None:
        self._check_writable()
        self._check_open()
        if not may_write():
            return  # it would wait for the transaction of the handler that asks

        self._save(_SNAPSHOT_SAVE, msgspec.structs.astuple(snapshot))

    def save_note(self, key: str) -> None:
        """Note that something was done now."""
        self._check_writable()
        self._save(_NOTE_SAVE, (key, str(self.now())))

    def _save(self, statement: str, values: Sequence[Any]) -> None:
        def save(search: Search) -> None:
            self._file.check()
            search.connection.roll_back()  # an interrupt may have left a transaction open
            search.connection.run(statement, values)

        with translated(self._path):
            doing(AT_WORK, self._write, partial(self._ask, save))

    def _write(self, work: Callable[[], None]) -> None:
        with self._turn:
            self._file_lock.hold(work)

    def transaction(self) -> SqliteTransaction:
        self._check_writable()
        return SqliteTransaction(self._pens, self.now)

    def followers(self, name: str | None = None) -> list[FollowerRow]:
        return self._ask(lambda search: followers_of(search.connection.rows(_FOLLOWERS, (name,))))

    def dead_letters(self, follower: str) -> list[DeadLetter]:
        return self._ask(lambda search: letters_of(search.connection.rows(_DEAD_LETTERS, (follower,))))

    def count_dead_letters(self, follower: str) -> int:
        rows = self._ask(lambda search: search.connection.rows(_DEAD_LETTER_COUNT, (follower,)))
        return int(rows[0][0])

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        def ask(search: Search) -> list[Any]:
            try:
                return search.connection.ask(sql, parameters)
            except apsw.ExecTraceAbort as error:
                raise not_answered("it is more than one statement") from error
            except (apsw.SQLError, apsw.ReadOnlyError, apsw.BindingsError, TypeError) as error:
                raise not_answered(error) from error

        return self._ask(ask, is_long=True)

    def stats(self) -> Stats:
        def ask(search: Search) -> Stats:
            execute = search.connection.rows
            ((log, refused, tags, size, *notes),) = execute(_STATS, (str(list(search.recent_tags())),))
            last_check, last_backup = map(time_of, notes)
            return Stats(
                engine=self.name,
                log=UUID(bytes=log, version=4),
                schema=version(),
                head=search.head,
                appends=execute(_LAST_APPEND, (search.head,))[0][0] if search.head else 0,
                refused=refused + self._writer.refused,
                types=len(search.types()),
                tags=tags,
                size_bytes=size + _size(f"{self._path}-wal"),
                now=from_microseconds(self.now()),
                record_conditions=self._record_conditions,
                last_check=last_check,
                last_backup=last_backup,
            )

        return self._look(ask, is_long=True)

    def close(self) -> None:
        with contextlib.suppress(apsw.Error, OSError, CorruptLog):  # a lost count is no reason to fail
            if self._writer.refused and self._connection.is_writable and not self._is_closed:
                self._write(self._write_down_refusals)
        with self._turn, self._lock, self._beside:
            self._is_closed = True
            if self._reads_beside is not None:
                self._reads_beside.connection.close()
            for reader in self._readers:
                reader.close()
            self._readers.clear()
            self._pens.close()
            self._connection.close()
            self._file_lock.close()

    def pause(self) -> None:
        clock.sleep(LOOK_EVERY_SECONDS)

    def leave_to_parent(self) -> None:
        """Nothing: `process.py` does it for every connection and lock."""

    def _write_down_refusals(self) -> None:
        with self._lock:
            self._file.check()
            self._writer.count_refused()

    def _look(
        self, question: Callable[[Search], T], *, is_long: bool = False, may_be_long: bool = False
    ) -> T:
        """The answer to a question about one snapshot of the log."""
        return self._ask(
            lambda search: search.in_snapshot(question), is_long=is_long, may_be_long=may_be_long
        )

    def _ask(self, question: Callable[[Search], T], *, is_long: bool = False, may_be_long: bool = False) -> T:
        before = current.get()
        try:
            current.set(AT_WORK)  # as in `doing`, which would be one more call
            self._file.check_now_and_then()
            if not is_long:
                with self._lock:
                    self._check_open()
                    if not may_be_long:
                        return question(self._search)
                    with contextlib.suppress(apsw.InterruptError):  # it is long
                        return self._connection.in_few_steps(partial(question, self._search))
            deadline = Deadline(self.read_seconds)
            reader = self._take_reader()
            try:
                answer = reader.in_time(
                    deadline, partial(question, Search(reader, self._names, self._recent, deadline=deadline))
                )
            except BaseException:  # perhaps the connection is to blame
                reader.close()
                raise
            self._give_back(reader)
            return answer
        except Exception as error:
            ours = translate(error, self._path)
            if ours is None:
                raise
            raise ours from error
        finally:
            current.set(before)

    def _look_at_once(self, question: Callable[[Search], None]) -> bool:
        """Ask through a connection that nobody uses just now; False if there is none."""
        return doing(AT_WORK, self._answer_at_once, question)

    def _answer_at_once(self, question: Callable[[Search], None]) -> bool:
        # While a commit has the first one, and with many tasks that is most of the time, there is a second one.
        searches: tuple[tuple[Any, Callable[[], Search]], ...] = (
            (self._lock, lambda: self._search),
            (self._beside, self._search_beside),
        )
        self._file.check_now_and_then()
        for lock, search in searches:
            if not lock.locked():
                with lock:
                    self._check_open()
                    search().in_snapshot(question)
                    return True
        return False

    def _search_beside(self) -> Search:
        if self._reads_beside is None:
            reader = self._connect(writable=self._connection.is_writable)
            self._reads_beside = Search(reader, self._names, self._recent)
        return self._reads_beside

    def _check_writable(self) -> None:
        if not self._connection.is_writable:
            raise Unavailable(f"{self._path} is read-only", hint=f"make it writable: chmod u+w {self._path}")

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreClosed("the store is closed")

    def _take_reader(self) -> Connection:
        self._check_open()
        try:
            return self._readers.pop()
        except IndexError:
            with self._file.opening():
                return Connection(
                    self._path, cache_kib=READER_CACHE_KIB, writable=self._connection.is_writable
                )

    def _give_back(self, reader: Connection) -> None:
        if self._is_closed or reader.in_transaction or len(self._readers) >= IDLE_READERS:
            reader.close()
        else:
            self._readers.append(reader)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
