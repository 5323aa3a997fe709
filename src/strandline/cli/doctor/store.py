"""A store: whether it can be read, and is private, durable and undamaged. Databases: see `database.py`."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from strandline import InvalidInput, StrandlineError
from strandline.engine.open import Place, place_of
from strandline.engine.sqlite.connection import READER_CACHE_KIB, Connection, translated
from strandline.engine.sqlite.file_lock import FileLock
from strandline.engine.sqlite.process import LockKind, process

from ..options import opened
from .database import database_findings
from .finding import Finding, judged

PRIVATE = 0o600
SYNCHRONOUS = ("off", "normal", "full", "extra")
LONGEST_TURN_SECONDS = 3.0
DURABLE = ("full", "extra")


def store_findings(url: str, log: str) -> Iterator[Finding]:
    """What there is to say about the store; after one that cannot be opened, nothing more."""
    if is_database(url):
        try:
            yield from database_findings(url, log)
        except StrandlineError as error:
            yield Finding("store", "bad", str(error), error.hint)
            return
    found = _opened(url, log)
    yield found
    path = file_of(url)
    if found.state != "ok" or path is None:
        return
    yield mode_finding(path)
    yield lock_finding(process.lock_kind)
    if os.access(path, os.W_OK):
        yield writer_finding(path)
    yield from _asked(path)


def file_of(url: str) -> Path | None:
    """The file of a store, None if it is not one."""
    place = _place(url)
    return Path(place.address) if place is not None and place.engine == "sqlite" else None


def is_database(url: str) -> bool:
    """Whether the store is in a database, and not on this machine's disk."""
    place = _place(url)
    return place is not None and place.engine == "postgres"


def is_elsewhere(url: str) -> bool:
    """Whether another process keeps the store, perhaps on another machine."""
    place = _place(url)
    return place is not None and place.engine in {"postgres", "http"}


def _place(url: str) -> Place | None:
    try:
        return place_of(url)
    except InvalidInput:
        return None


def mode_finding(path: Path) -> Finding:
    """Whether only the owner may read and write the file."""
    mode = stat.S_IMODE(path.stat().st_mode)
    private = mode | PRIVATE == PRIVATE
    found = f"{mode:04o}" if private else f"{mode:04o}: others on this machine may open it"
    return judged("file mode", found, f"chmod 600 {path}", good=private, otherwise="warning")


def lock_finding(kind: LockKind) -> Finding:
    """Which locks SQLite takes, and so what may happen in a process that has a store open."""
    meanings = {
        "ofd": "ofd: forks, and other code that opens the file, do no harm",
        "posix": "posix: forks do no harm",
        "none": "none: this process must neither fork nor open the file by other code",
    }
    fix = "read the file by another process: strandline read, or the sqlite3 shell"
    if kind == "none":
        fix = "build the native code (see above); until then close every store before a fork, and " + fix
    return judged("locks", meanings[kind], fix, good=kind == "ofd", otherwise="warning")


def writer_finding(path: Path) -> Finding:
    """Whether this process gets its turn to write, and if not, which process keeps it."""
    try:
        with translated(str(path)), FileLock(str(path.resolve()), LONGEST_TURN_SECONDS):
            return Finding("turns", "ok", "processes take turns to write")
    except StrandlineError as error:
        return Finding(
            "turns", "bad", str(error), "if that process is stopped, let it go on (kill -CONT) or end it"
        )


def _opened(url: str, log: str) -> Finding:
    try:
        with opened(url, log, create=False) as store:
            stats = store.stats()
    except (StrandlineError, OSError) as error:
        return Finding(
            "store", "bad", str(error), getattr(error, "hint", "") or "check the path and its rights"
        )
    return Finding(
        "store", "ok", f"{stats.engine}, schema {stats.schema}, head {stats.head:,}, log {stats.log}"
    )


def _asked(path: Path) -> Iterator[Finding]:
    try:
        with translated(str(path)):
            # A connection that may write tidies up when it closes; a reading one leaves files behind.
            writable = os.access(path, os.W_OK)
            connection = Connection(str(path), cache_kib=READER_CACHE_KIB, writable=writable)
            try:
                yield from (look(connection, path) for look in LOOKS)
            finally:
                connection.close()
    except StrandlineError as error:
        yield Finding("integrity", "bad", str(error), error.hint)


def _journal(connection: Connection, path: Path) -> Finding:
    mode = _pragma(connection, "journal_mode")
    return judged("journal", mode, f"sqlite3 {path} 'pragma journal_mode = wal'", good=mode == "wal")


def _synchronous(connection: Connection, _: Path) -> Finding:
    level = SYNCHRONOUS[int(_pragma(connection, "synchronous"))]
    fix = "open the store with strandline only: it sets synchronous = full"
    return judged("synchronous", level, fix, good=level in DURABLE)


def _integrity(connection: Connection, path: Path) -> Finding:
    answer = _pragma(connection, "quick_check")
    fix = f"run: strandline check {path}; then restore a backup"
    return judged("integrity", answer, fix, good=answer == "ok")


def _pragma(connection: Connection, name: str) -> str:
    return str(connection.execute(f"pragma {name}")[0][0])


LOOKS: tuple[Callable[[Connection, Path], Finding], ...] = (_journal, _synchronous, _integrity)
