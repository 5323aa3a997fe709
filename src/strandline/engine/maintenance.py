"""Looking after a log: check it, back it up, bring its schema up to date. Takes URLs, like `connect`."""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec

Progress = Callable[[int, int], None]
"""Called with how much is done and how much there is."""


class Problem(msgspec.Struct, frozen=True):
    """Something in the log that contradicts the rest of it."""

    kind: str
    position: int
    message: str


class CheckReport(msgspec.Struct, frozen=True):
    """What a check looked at, and what it found; a sound log has no problems."""

    events: int
    appends: int
    conditions: int
    index_entries: int
    problems: list[Problem]


class BackupReport(msgspec.Struct, frozen=True):
    """A finished backup."""

    path: str
    head: int
    size_bytes: int


class MigrationReport(msgspec.Struct, frozen=True):
    """Which schema a log had, which it has, and the steps between them."""

    before: int
    after: int
    steps: list[str]


def check_log(url: str | os.PathLike[str], progress: Progress | None = None) -> CheckReport:
    """Verify positions, index against events, ids and every recorded condition."""
    raise NotImplementedError


def backup_log(
    url: str | os.PathLike[str], target: str | os.PathLike[str], progress: Progress | None = None
) -> BackupReport:
    """Copy a log to a new file while it is in use. An existing file is never overwritten."""
    raise NotImplementedError


def migrate_log(url: str | os.PathLike[str], *, dry_run: bool = False) -> MigrationReport:
    """Bring the schema up to date; with `dry_run` only say what would be done."""
    raise NotImplementedError
