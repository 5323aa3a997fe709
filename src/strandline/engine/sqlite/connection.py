"""Opening the file: connections, the lock between processes, and what SQLite's errors mean."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import apsw
import msgspec

from ... import where
from ...errors import CorruptLog, InvalidInput, NotFound, StrandlineError, Unavailable
from ..deadline import Deadline
from .cursor import Cursor, Insert, cursor
from .file_lock import FileLock
from .process import Gone, leak, process

BUSY_MILLISECONDS = 10_000
WRITER_CACHE_KIB = 32_768
READER_CACHE_KIB = 8_192
FEW_STEPS = 100_000
"""Of the machine of SQLite: they take some milliseconds."""
STEPS_BETWEEN_LOOKS = 20_000
"""Steps between two looks at the clock, where a read has a limit of time."""
MAPPED_BYTES = 1 << 30  # read through the system's page cache: a commit does not make a reader start cold

# Raised when code that reads rows meets other values than were written. Matchers may raise the same, see below.
_UNREADABLE = (
    *(LookupError, ValueError, TypeError, AttributeError, ArithmeticError, AssertionError, StopIteration),
    msgspec.MsgspecError,
)

T = TypeVar("T")
Execute = Callable[[str, Sequence[Any]], list[Any]]


def _stop() -> bool:
    return True


class Connection:
    """One connection to the file, for one thread at a time.

    The store's own statements are prepared once: `rows`, `events`, `insert` (see `cursor.py`).
    """

    _database: apsw.Connection = None  # type: ignore[assignment]  # a fork may come while this is made
    _own: Cursor = None  # type: ignore[assignment]

    def __init__(self, path: str, *, cache_kib: int, writable: bool = True, is_patient: bool = True) -> None:
        flags = apsw.SQLITE_OPEN_READWRITE if writable else apsw.SQLITE_OPEN_READONLY
        process.prepare(path)
        process.add(self, path)
        # One thread at a time uses it, so SQLite need not lock it for every column of every row.
        self._database = apsw.Connection(path, flags=flags | apsw.SQLITE_OPEN_NOMUTEX)
        self._database.set_busy_timeout(BUSY_MILLISECONDS)
        own = self._own = cursor(self._database, is_patient=is_patient)
        self.rows, self.slow_rows, self.events = own.rows, own.slow_rows, own.events
        self.find, self.insert = own.find, own.insert
        self.undo = own.undo
        """Ends the transaction that is open. One call in C, so an interrupt in a `finally` cannot come before it."""
        try:
            self._set_up(cache_kib)
            self.is_writable = writable and self._takes_writes()
            if writable and not self.is_writable and is_writable(os.path.realpath(path)):
                raise Unavailable(
                    f"{path} could be opened for reading only, although this user may write it",
                    hint="try again; see that this process may open more files: ulimit -n",
                )
        except BaseException:
            self.close()
            raise

    def _set_up(self, cache_kib: int) -> None:
        self.run(f"pragma cache_size = -{cache_kib}")
        self.run("pragma synchronous = full")
        self.run(f"pragma mmap_size = {MAPPED_BYTES}")
        if sys.platform == "darwin":
            self.run("pragma fullfsync = on")  # fsync alone does not reach the disk there

    def _takes_writes(self) -> bool:
        """Whether the file, its -wal and its -shm were opened for writing. If one was not, SQLite says so only here."""
        if self._database.readonly("main"):
            return False
        self._database.set_busy_timeout(0)
        try:
            self.run("begin immediate")
            self.run("rollback")
        except apsw.BusyError:  # another connection writes, and this one could have waited for it
            return True
        except apsw.ReadOnlyError:
            return False
        finally:
            self._database.set_busy_timeout(BUSY_MILLISECONDS)
        return True

    @property
    def database(self) -> apsw.Connection:
        """The connection of apsw."""
        return self._database

    # A cursor for each call, not one for all: a statement that an interrupt stopped would hold on to its snapshot.

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Run a statement, or several, whatever a user wrote into it, and return its rows."""
        return self._database.execute(statement, parameters).fetchall()

    def ask(self, statement: str, parameters: Sequence[Any]) -> list[Any]:
        """The rows of one statement, whatever a user wrote into it; it changes nothing."""
        begun: list[str] = []

        def is_first(_: object, text: str, __: object) -> bool:
            begun.append(text)  # a second one could allow a third one to write
            return len(begun) == 1

        cursor = self._database.cursor()
        try:
            self.run("pragma query_only = on")
            cursor.exec_trace = is_first
            return cursor.execute(statement, parameters).fetchall()
        finally:
            cursor.close(True)
            self.run("pragma query_only = off")

    def run(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        """Run a statement, or several, for its effect."""
        self._database.execute(statement, parameters).fetchall()

    def run_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement for each row of parameters."""
        self._database.executemany(statement, rows)

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._database.in_transaction

    def roll_back(self) -> None:
        """End the transaction, if one is open, without its effects."""
        if self.in_transaction:
            self.rows("rollback")

    def begin(self) -> None:
        """Begin to write."""
        self._own.begin(BUSY_MILLISECONDS)

    def commit(self, inserts: Sequence[Insert], lock: FileLock) -> None:
        """Make the last inserts of the transaction and commit, which lets the next process in."""
        lock.release_by(partial(self._own.commit, inserts))

    def in_few_steps(self, call: Callable[[], T]) -> T:
        """The result of a call that only reads. If it takes many steps, it ends with `apsw.InterruptError`."""
        limit = self._database.set_progress_handler
        try:  # one call in C each, so that no interrupt leaves the limit behind
            limit(_stop, FEW_STEPS)
            return call()
        finally:
            limit(None)

    def in_time(self, deadline: Deadline, call: Callable[[], T]) -> T:
        """The result of a call that only reads. It fails when its time is up."""
        if not deadline.is_limited:
            return call()
        limit = self._database.set_progress_handler
        try:
            limit(deadline.is_over, STEPS_BETWEEN_LOOKS)
            return call()
        except apsw.InterruptError as error:
            raise deadline.too_long() from error
        finally:
            limit(None)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """A read transaction: all statements see the same state."""
        try:
            self.roll_back()  # an interrupt may have left one open
            self.rows("begin")
            yield
        finally:
            self.roll_back()

    def close(self) -> None:
        """Close the connection; the last one to close tidies the file up."""
        self._own.close()
        self._database.close()
        process.remove(self)

    def leave_to_parent(self) -> None:
        """Never touch the file again: this process is a fork of the one that opened it."""
        for inherited in (self._database, self._own):
            leak(inherited)
        gone: Any = Gone()
        self._database = self._own = self.undo = gone
        self.rows = self.slow_rows = self.events = self.find = self.insert = gone


def check_file(path: str, *, create: bool) -> None:
    """Refuse what cannot be a store before SQLite sees it."""
    folder = os.path.dirname(path) or "."
    _refuse_long_name(path)
    if os.path.isdir(path):
        raise InvalidInput(
            f"{path} is a folder", hint=f"name a file in it: {os.path.join(path, 'events.db')}"
        )
    if os.path.exists(path) and not os.path.isfile(path):
        raise InvalidInput(f"{path} is not a regular file", hint="name a file")
    if not os.path.isdir(folder):
        raise NotFound(f"the folder {folder} does not exist", hint=f"make it: mkdir -p {folder}")
    if not create and not os.path.exists(path):
        raise NotFound(
            f"there is no store at {path}", hint="check the path; strandline append makes a new one"
        )
    if os.path.exists(path) and (names := os.stat(path).st_nlink) > 1:
        raise InvalidInput(
            f"{path} has {names} names (hard links), and SQLite keeps the newest events in a file beside one of them",
            hint=f"remove the other names; find them: find / -samefile {shlex.quote(path)}",
        )


def is_writable(path: str) -> bool:
    """Whether this user may write the file, and the files that SQLite keeps beside it."""
    return os.access(path, os.W_OK) and os.access(os.path.dirname(path), os.W_OK)


def create_file(path: str) -> None:
    """Make the file, readable by its owner only. Call with the file lock held.

    Never opens a file that exists: closing it would drop the locks that SQLite holds on it.
    """
    if not os.path.exists(path):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def translate(  # noqa: C901, PLR0911, PLR0912  (a table)
    error: BaseException, path: str, *, written: bool | None = False
) -> StrandlineError | None:
    """The error to raise instead of one of SQLite's or the system's; None to let it pass."""
    match error:
        case StrandlineError():
            return None
        case apsw.Error() if _says_full(error):
            return Unavailable(f"no space left for {path}", hint="free some space, then send the same again")
        case apsw.NotADBError():
            return InvalidInput(
                f"{path} is not a Strandline store", hint="check the path, or name a new file"
            )
        case apsw.CorruptError() | apsw.SQLError():  # our statements are right, so the tables are not
            return CorruptLog(f"{path} is damaged: {error}", hint=how_to_mend(path))
        case OSError(errno=errno.ENAMETOOLONG):
            return _too_long(path)
        case apsw.ReadOnlyError() | apsw.PermissionsError() | PermissionError() | OSError(errno=errno.EROFS):
            return Unavailable(f"{path} cannot be written: {error}", hint=_how_to_write(path))
        case apsw.NoMemError():
            return Unavailable(
                f"no memory left to read or write {path}",
                hint="free some memory, then send the same again",
                written=written,
            )
        case apsw.BusyError() | apsw.LockedError() | apsw.ProtocolError():
            return Unavailable(
                f"{path} is locked by another program: {error}", hint="close it and send the same again"
            )
        case apsw.CantOpenError():
            return Unavailable(f"{path} cannot be opened: {error}", hint=_how_to_write(path))
        case FileNotFoundError() | NotADirectoryError():  # it was there a moment ago, or a link leads nowhere
            return NotFound(f"{path} cannot be opened: {error}", hint=_how_to_find(path))
        case apsw.IOError() | OSError():
            return Unavailable(f"reading or writing {path} failed: {error}", written=written)
        case apsw.ConnectionClosedError():
            return Unavailable(f"the connection to {path} is closed: {error}", written=written)
    if isinstance(error, _UNREADABLE) and not _is_of_a_matcher(error):
        said = f"{type(error).__name__}: {error}"
        return CorruptLog(f"{path} holds values that were never written: {said:.200}", hint=how_to_mend(path))
    return None


def _is_of_a_matcher(error: BaseException) -> bool:
    """Whether an error came out of the matcher of a query: then the query is to blame, and not the file."""
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_globals.get("__name__") == where.__name__ for frame, _ in frames)


def how_to_mend(path: str) -> str:
    """What to do with a damaged file."""
    return (
        f"run: strandline check {shlex.quote(path)}. If it finds damage, restore a backup, as docs/operations.md"
        " says. If it finds none, a read of the disk failed: look at the system's log, and try again"
    )


def _refuse_long_name(path: str) -> None:
    """Refuse a name that has no room for the longest ending of the files beside it."""
    try:
        os.lstat(f"{path}-journal")
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise _too_long(path) from error


def _too_long(path: str) -> InvalidInput:
    return InvalidInput(
        f"the name {path:.80}… is too long for this file system",
        hint="use a shorter one, or a shorter folder",
    )


def _how_to_write(path: str) -> str:
    folder = os.path.dirname(os.path.realpath(path))
    if os.path.exists(path):
        return f"make the file and its folder writable: chmod u+w {shlex.quote(path)} {shlex.quote(folder)}"
    return f"the folder {folder} must let you make files in it: chmod u+w {shlex.quote(folder)}"


def _how_to_find(path: str) -> str:
    return f"see that there is a folder {os.path.dirname(os.path.realpath(path))}"


def _says_full(error: apsw.Error) -> bool:
    is_for_shared_memory = getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_SHMSIZE
    return isinstance(error, apsw.FullError) or is_for_shared_memory


@contextlib.contextmanager
def translated(path: str) -> Iterator[None]:
    """Raise our errors instead of SQLite's."""
    try:
        yield
    except Exception as error:
        ours = translate(error, path)
        if ours is None:
            raise
        raise ours from error
