"""A store: whether it can be read, and is private, durable and undamaged. Databases: see `database.py`."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import strandline
from strandline import InvalidInput, StrandlineError
from strandline.engine.open import Place, place_of
from strandline.engine.sqlite.connection import READER_CACHE_KIB, Connection, translated

from .database import database_findings
from .finding import Finding, judged

PRIVATE = 0o600
SYNCHRONOUS = ("off", "normal", "full", "extra")
DURABLE = ("full", "extra")


def store_findings(url: str, log: str) -> Iterator[Finding]:
    """What there is to say about the store; after one that cannot be opened, nothing more."""
    if is_database(url):
        try:
            yield from database_findings(url, log)
        except StrandlineError as error:
            yield Finding("store", "bad", str(error), error.hint)
            return
    opened = _opened(url, log)
    yield opened
    path = file_of(url)
    if opened.state != "ok" or path is None:
        return
    yield mode_finding(path)
    yield from _asked(path)


def file_of(url: str) -> Path | None:
    """The file of a store, None if it is not one."""
    place = _place(url)
    return Path(place.address) if place is not None and place.engine == "sqlite" else None


def is_database(url: str) -> bool:
    """Whether the store is on a server, and not on this machine's disk."""
    place = _place(url)
    return place is not None and place.engine == "postgres"


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


def _opened(url: str, log: str) -> Finding:
    try:
        with strandline.connect(url, log=log, create=False) as store:
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
