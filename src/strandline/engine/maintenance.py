"""Looking after a log: check it, back it up, bring its schema up to date. Takes URLs, like `connect`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import InvalidInput
from .notes import LAST_BACKUP, leave_note
from .open import (
    DEFAULT_LOG,
    Place,
    place_of,
    refuse_other_logs,
    refuse_server,
    require_psycopg,
    without_password,
)
from .reports import BackupReport, CheckReport, MigrationReport, Problem, Progress

# Not where they are used: a process that is out of file descriptors can import nothing.
from .sqlite.backup import backup
from .sqlite.check import check as check_file
from .sqlite.check import save_note
from .sqlite.schema import migrate as migrate_file
from .sqlite.schema import version as file_version

if TYPE_CHECKING:
    from .postgres.address import Address

__all__ = [
    "BackupReport",
    "CheckReport",
    "MigrationReport",
    "Problem",
    "Progress",
    "backup_log",
    "check_log",
    "migrate_log",
    "schema_script",
]


def check_log(
    url: str | os.PathLike[str], progress: Progress | None = None, *, log: str = DEFAULT_LOG
) -> CheckReport:
    """Verify positions, index against events, ids and every recorded condition."""
    place = _place(url, "check", log)
    if place.engine == "postgres":
        address = _address(place, log)
        from .postgres.check import check as check_database

        return check_database(address, progress)
    return check_file(place.address, progress)


def backup_log(
    url: str | os.PathLike[str],
    target: str | os.PathLike[str],
    progress: Progress | None = None,
    *,
    log: str = DEFAULT_LOG,
) -> BackupReport:
    """Copy a log to a new file while it is in use. An existing file is never overwritten."""
    place = _place(url, "back up", log)
    if place.engine == "postgres":
        _address(place, log)  # refuses a URL or a name that no log can have
        raise InvalidInput(
            "a log in PostgreSQL is backed up by PostgreSQL's own tools, together with the tables of its followers",
            hint=f"run: {_dump_command(place, target)}",
        )
    copy = place_of(target)
    if copy.engine != "sqlite":
        raise InvalidInput(
            "a backup is a file",
            hint="name one; strandline read URL | strandline append OTHER --ndjson - copies the events elsewhere",
        )
    report = backup(place.address, copy.address, progress)
    leave_note(lambda: save_note(place.address, LAST_BACKUP))
    return report


def migrate_log(
    url: str | os.PathLike[str], *, dry_run: bool = False, log: str = DEFAULT_LOG
) -> MigrationReport:
    """Bring the schema up to date; with `dry_run` only say what would be done."""
    place = _place(url, "migrate", log)
    if place.engine == "postgres":
        address = _address(place, log)
        from .postgres import schema as database

        before, steps = database.migrate(address, dry_run=dry_run)
        return MigrationReport(before, before if dry_run else database.version(), steps)
    before, steps = migrate_file(place.address, dry_run=dry_run)
    return MigrationReport(before, before if dry_run else file_version(), steps)


def schema_script(*, log: str = DEFAULT_LOG, grant: Sequence[str] = ()) -> str:
    """The SQL that makes a log in a PostgreSQL database, or that lets roles use one."""
    require_psycopg()
    from .postgres import schema
    from .postgres.address import Log

    named = Log(log)
    statements = [schema.grants(named, role) for role in grant] if grant else [schema.ddl(named)]
    return "\n".join(("begin;", *statements, "commit;", ""))


def _place(url: str | os.PathLike[str], what: str, log: str) -> Place:
    refuse_server(url, what)
    place = place_of(url)
    if place.engine == "memory":
        raise InvalidInput(f"there is nothing to {what} in {os.fspath(url)}", hint="name the file of a store")
    if place.engine == "sqlite":
        refuse_other_logs(log)
    return place


def _address(place: Place, log: str) -> Address:
    require_psycopg()
    from .postgres.address import Address

    return Address(place.address, log)


def _dump_command(place: Place, target: str | os.PathLike[str]) -> str:
    """Libpq's programs read the same URL and find the password where libpq does.

    It dumps the whole database: read models and the tables of followers are in other schemas than the log, and have to
    be restored together with their checkpoints.
    """
    words = ("pg_dump", "--format=custom", f"--file={os.fspath(target)}", without_password(place.address))
    return shlex.join(words)
