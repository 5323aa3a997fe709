"""Looking after a log: check it, back it up, bring its schema up to date. Takes URLs, like `connect`."""

from __future__ import annotations

import os

from ..errors import InvalidInput
from .open import sqlite_path
from .reports import BackupReport, CheckReport, MigrationReport, Problem, Progress

__all__ = [
    "BackupReport",
    "CheckReport",
    "MigrationReport",
    "Problem",
    "Progress",
    "backup_log",
    "check_log",
    "migrate_log",
]


def check_log(url: str | os.PathLike[str], progress: Progress | None = None) -> CheckReport:
    """Verify positions, index against events, ids and every recorded condition."""
    path = _file(url, "check")
    from .sqlite.check import check

    return check(path, progress)


def backup_log(
    url: str | os.PathLike[str], target: str | os.PathLike[str], progress: Progress | None = None
) -> BackupReport:
    """Copy a log to a new file while it is in use. An existing file is never overwritten."""
    path = _file(url, "back up")
    from .sqlite.backup import backup

    return backup(path, os.fspath(target), progress)


def migrate_log(url: str | os.PathLike[str], *, dry_run: bool = False) -> MigrationReport:
    """Bring the schema up to date; with `dry_run` only say what would be done."""
    path = _file(url, "migrate")
    from .sqlite.schema import migrate, version

    before, steps = migrate(path, dry_run=dry_run)
    return MigrationReport(before, before if dry_run else version(), steps)


def _file(url: str | os.PathLike[str], what: str) -> str:
    path = sqlite_path(url)
    if path is None:
        raise InvalidInput(f"there is nothing to {what} in {os.fspath(url)}", hint="name the file of a store")
    return path
