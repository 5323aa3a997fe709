"""Notes about a log: when it was last checked and backed up."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import datetime

from ..errors import StrandlineError
from ..event import from_microseconds

LAST_CHECK, LAST_BACKUP = "last_check", "last_backup"
PATIENCE_SECONDS = 1.0
"""How long a note waits for the lock of a log."""


def time_of(note: str | None) -> datetime | None:
    """The time that a note tells."""
    return None if note is None else from_microseconds(int(note))


def leave_note(save: Callable[[], None]) -> None:
    """Save a note if that is possible. Who may only read the log can check it and back it up too."""
    with contextlib.suppress(StrandlineError):
        save()
