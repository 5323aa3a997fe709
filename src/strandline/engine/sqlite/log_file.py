"""The file of a log: the one that was opened, or another that has its name by now, or none."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from ...errors import CorruptLog
from ..past import Past
from .process import FileId, identify

# Reads look at the name this often. Writes always do.
LOOK_EVERY_SECONDS = 0.01


class LogFile:
    """Notices that the file of an open store was removed, renamed or replaced.

    SQLite goes on with the file that it opened, whatever its name is. Other processes would never see what is written
    there. Only the name is looked at: to open and close the file would drop the locks that SQLite holds on it.
    """

    def __init__(self, path: str) -> None:
        self.past = Past()
        self._path = path
        self._opened: FileId | None = None
        self._look_again_at = 0.0

    @contextlib.contextmanager
    def opening(self) -> Iterator[None]:
        """While SQLite opens the file: it is the same file before and after, and for every connection."""
        if self._opened is None:
            self._opened = identify(self._path)
        else:
            self.check()
        try:
            yield
        except Exception:
            self.check()  # perhaps it could not be opened because it is gone
            raise
        self.check()

    def check(self) -> None:
        """Raise if the file is no longer the one that was opened. It stays so, until the store is closed."""
        self.past.check()
        try:
            present = identify(self._path)
        except (FileNotFoundError, NotADirectoryError):
            raise self._gone("it was removed or renamed") from None
        if present != self._opened:
            raise self._gone("another file has its place")

    def check_now_and_then(self) -> None:
        """Like `check`, for what is asked often and writes nothing."""
        now = time.monotonic()
        if now >= self._look_again_at:
            self.check()
            self._look_again_at = now + LOOK_EVERY_SECONDS
        else:
            self.past.check()

    def _gone(self, why: str) -> CorruptLog:
        return self.past.lose(f"{self._path} is no longer the file that this store opened: {why}")
