"""What looking after a log reports."""

from __future__ import annotations

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
