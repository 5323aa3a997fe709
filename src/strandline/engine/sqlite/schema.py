"""The schema of a file: made where there is none, migrated when asked to, refused where it is another's."""

from __future__ import annotations

import os
import time

import apsw

from ...errors import CorruptLog, InvalidInput, NotFound, SchemaMismatch
from .connection import READER_CACHE_KIB, WRITER_CACHE_KIB, Connection, check_file, translated
from .file_lock import FileLock
from .statements import sql

WAL_ATTEMPTS = 1_000
APPLICATION_ID = 0x5374726C  # "Strl", which `file` and SQLite show

# Numbered from 1, in order; a step that was released never changes, and none drops anything.
MIGRATIONS = {name: sql(name) for name in ("schema_001", "schema_002", "schema_003", "schema_004")}


def version() -> int:
    """The schema that this version of Strandline speaks."""
    return len(MIGRATIONS)


def plan(found: int) -> list[str]:
    """The migrations that a file with schema `found` still needs."""
    return list(MIGRATIONS)[found:]


def version_of(connection: Connection, path: str) -> int:
    """The schema version of the file, 0 if it is empty; raises if it is something else."""
    with connection.snapshot():  # somebody may be making it just now
        ((application,),) = connection.execute("pragma application_id")
        ((number,),) = connection.execute("pragma user_version")
        ((tables,),) = connection.execute("select count(*) from sqlite_schema")
    if application == APPLICATION_ID:
        return int(number)
    if application or number or tables:
        raise InvalidInput(f"{path} is a database, but not a Strandline store", hint="name another file")
    return 0


def found_version(path: str) -> int:
    """The schema version of the file, 0 if it is missing or empty. Looks before anything is made beside the file."""
    if not os.path.exists(path) or not os.path.getsize(path):
        return 0
    connection = Connection(path, cache_kib=READER_CACHE_KIB)
    try:
        return version_of(connection, path)
    finally:
        connection.close()


def check_version(found: int, path: str) -> None:
    """Refuse a schema that this version of Strandline does not speak."""
    refuse_newer(found, path)
    if found < version():
        raise SchemaMismatch(
            f"{path} has schema {found}, this version of Strandline needs schema {version()}",
            hint=f"run: strandline migrate {path}",
        )


def refuse_newer(found: int, path: str) -> None:
    """Refuse a schema from the future."""
    if found > version():
        raise SchemaMismatch(
            f"{path} has schema {found}, this version of Strandline knows up to schema {version()}",
            hint="install a newer strandline: pip install -U strandline",
        )


def prepare(connection: Connection, path: str, *, create: bool) -> None:
    """Make the schema if the file is empty. Call with the file lock held: others may be at it too."""
    if version_of(connection, path) == 0:
        if not create:
            raise NotFound(f"there is no store in {path}: the file is empty", hint="check the path")
        switch_to_wal(connection)
        apply(connection, plan(0))
    check_version(version_of(connection, path), path)


def switch_to_wal(connection: Connection) -> None:
    """Keep a write-ahead log. The switch does not wait for those who just look at the file, so try again."""
    for attempt in range(WAL_ATTEMPTS):
        try:
            connection.execute("pragma journal_mode = wal")
            return
        except apsw.BusyError:
            if attempt == WAL_ATTEMPTS - 1:
                raise
            time.sleep(0.005)


def apply(connection: Connection, steps: list[str]) -> None:
    """Run migrations in one transaction: all of them, or none."""
    connection.run("begin immediate")
    try:
        for step in steps:
            connection.run(MIGRATIONS[step])
        connection.run(f"pragma application_id = {APPLICATION_ID}")
        connection.run(f"pragma user_version = {version()}")
        connection.run("commit")
    finally:
        connection.roll_back()


def migrate(path: str, *, dry_run: bool) -> tuple[int, list[str]]:
    """Bring a file up to date and verify it; returns the schema it had and the steps it needed."""
    check_file(path, create=False)
    lock = FileLock(os.path.realpath(path))
    with translated(path):
        found_version(path)
    with translated(path), lock:
        connection = Connection(path, cache_kib=WRITER_CACHE_KIB)
        try:
            found = version_of(connection, path)
            if found == 0:
                raise NotFound(f"{path} is empty", hint="to begin a log in it, append an event")
            refuse_newer(found, path)
            steps = plan(found)
            if steps and not dry_run:
                apply(connection, steps)
                verify(connection, path)
        finally:
            connection.close()
            lock.close()
    return found, steps


def verify(connection: Connection, path: str) -> None:
    """Make sure that the file is sound and has the schema it claims."""
    check_version(version_of(connection, path), path)
    ((verdict,), *_) = connection.execute("pragma quick_check(1)")
    if verdict != "ok":
        raise CorruptLog(f"{path} is damaged: {verdict}")
