"""What a store has seen of its log, to notice a log that lost events: a failover, or a backup that was restored.

A log only grows. If the newest event that a store has seen is no longer where it was, the log has gone back in time.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

from ..errors import CorruptLog

LOST_HINT = (
    "close the store, connect again and decide again: positions, conditions and states from before may belong to"
    " events that are gone"
)


class Mark(NamedTuple):
    """The newest event that a store has seen: its position and its id. At position 0 there is no event."""

    position: int
    id: bytes


class Past:
    """The past of a log as one store has seen it. Safe to share between threads."""

    def __init__(self) -> None:
        self.mark = Mark(0, b"")
        self._loss = ""
        self._lock = threading.RLock()  # guards the mark

    @property
    def is_lost(self) -> bool:
        """Whether the log has lost events that the store has seen. That stays so until the store is closed."""
        return bool(self._loss)

    def saw(self, position: int, id_: bytes) -> None:
        """Remember an event that is committed, if it is newer than those seen so far."""
        if position > self.mark.position:
            with self._lock:
                if position > self.mark.position:
                    self.mark = Mark(position, id_)

    def lose(self, loss: str) -> CorruptLog:
        """Refuse every use from now on, and return the error to raise. The first loss counts."""
        self._loss = self._loss or loss
        return CorruptLog(self._loss, hint=LOST_HINT)

    def check(self) -> None:
        """Raise if the log has lost events."""
        if self._loss:
            raise CorruptLog(self._loss, hint=LOST_HINT)
