"""Opening the file: connections, the lock between processes, and what SQLite's errors mean."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import apsw

from ...errors import CorruptLog, InvalidInput, NotFound, StrandlineError, Unavailable
from .cursor import Insert, cursor

BUSY_MILLISECONDS = 10_000
WRITER_CACHE_KIB = 32_768
READER_CACHE_KIB = 8_192
MAPPED_BYTES = 1 << 30  # read through the system's page cache: a commit does not make a reader start cold

Execute = Callable[[str, Sequence[Any]], list[Any]]


class Connection:
    """One connection to the file, for one thread at a time.

    The store's own statements are prepared once: `rows`, `events`, `insert` (see `cursor.py`).
    """

    def __init__(self, path: str, *, cache_kib: int, writable: bool = True, is_patient: bool = True) -> None:
        flags = apsw.SQLITE_OPEN_READWRITE if writable else apsw.SQLITE_OPEN_READONLY
        # One thread at a time uses it, so SQLite need not lock it for every column of every row.
        self._database = apsw.Connection(path, flags=flags | apsw.SQLITE_OPEN_NOMUTEX)
        self._database.set_busy_timeout(BUSY_MILLISECONDS)
        self._cursor = self._database.cursor()
        own = self._own = cursor(self._database, is_patient=is_patient)
        self.rows, self.slow_rows, self.events = own.rows, own.slow_rows, own.events
        self.find, self.insert = own.find, own.insert
        self.is_writable = not self._database.readonly("main")
        self.run(f"pragma cache_size = -{cache_kib}")
        self.run("pragma synchronous = full")
        self.run(f"pragma mmap_size = {MAPPED_BYTES}")
        if sys.platform == "darwin":
            self.run("pragma fullfsync = on")  # fsync alone does not reach the disk there

    @property
    def database(self) -> apsw.Connection:
        """The connection of apsw."""
        return self._database

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Run a statement, or several, whatever a user wrote into it, and return its rows."""
        return self._cursor.execute(statement, parameters).fetchall()

    def ask(self, statement: str, parameters: Sequence[Any]) -> list[Any]:
        """The rows of one statement, whatever a user wrote into it; it changes nothing."""
        begun: list[str] = []

        def is_first(_: object, text: str, __: object) -> bool:
            begun.append(text)  # a second one could allow a third one to write
            return len(begun) == 1

        self.run("pragma query_only = on")
        try:
            self._cursor.exec_trace = is_first
            return self.execute(statement, parameters)
        finally:
            self._cursor.exec_trace = None
            self.run("pragma query_only = off")

    def run(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        """Run a statement, or several, for its effect."""
        self._cursor.execute(statement, parameters).fetchall()

    def run_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement for each row of parameters."""
        self._cursor.executemany(statement, rows)

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
        lock.release_by(lambda file: self._own.commit(inserts, file))

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
        self._cursor.close(True)
        self._database.close()


class FileLock:
    """A lock between processes, on `<file>.lock`. The kernel queues those who wait; SQLite's own lock
    makes them poll, and one process can starve another.
    """

    def __init__(self, path: str) -> None:
        self._path = f"{path}.lock"
        self._file: int | None = None
        self._is_held = False

    def open(self) -> None:
        """Open the lock file, which is made if need be."""
        if self._file is None:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def acquire(self) -> None:
        """Wait for the lock."""
        self.open()
        self._is_held = (
            True  # before it is: whoever is interrupted while waiting lets go of what may be taken
        )
        fcntl.flock(self._file, fcntl.LOCK_EX)  # type: ignore[arg-type]

    def release(self) -> None:
        """Let the next one in, if that was not done."""
        if self._is_held and self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        self._is_held = False

    def release_by(self, release: Callable[[int], None]) -> None:
        """Have somebody else let the next one in, who is given the file."""
        assert self._file is not None
        release(self._file)
        self._is_held = False

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the lock file. A forked process that does so leaves the lock to its parent."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


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


def is_writable(path: str) -> bool:
    """Whether this user may write the file, and the files that SQLite keeps beside it."""
    return os.access(path, os.W_OK) and os.access(os.path.dirname(path), os.W_OK)


def create_file(path: str) -> None:
    """Make the file, readable by its owner only. Call with the file lock held.

    Never opens a file that exists: closing it would drop the locks that SQLite holds on it.
    """
    if not os.path.exists(path):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def translate(  # noqa: C901, PLR0911  (a table)
    error: BaseException, path: str, *, written: bool | None = False
) -> StrandlineError | None:
    """The error to raise instead of one of SQLite's or the system's; None to let it pass."""
    match error:
        case apsw.Error() if _says_full(error):
            return Unavailable(f"no space left for {path}", hint="free some space, then send the same again")
        case apsw.NotADBError():
            return InvalidInput(
                f"{path} is not a Strandline store", hint="check the path, or name a new file"
            )
        case apsw.CorruptError() | apsw.SQLError():  # our statements are right, so the tables are not
            return CorruptLog(
                f"{path} is damaged: {error}", hint=f"run: strandline check {path}; then restore a backup"
            )
        case OSError(errno=errno.ENAMETOOLONG):
            return _too_long(path)
        case apsw.ReadOnlyError() | apsw.PermissionsError() | PermissionError() | OSError(errno=errno.EROFS):
            return Unavailable(f"{path} cannot be written: {error}", hint=_how_to_write(path))
        case apsw.BusyError() | apsw.LockedError():
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
    return None


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
    except (apsw.Error, OSError) as error:
        ours = translate(error, path)
        if ours is None:
            raise
        raise ours from error
