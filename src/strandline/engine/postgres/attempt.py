"""Sending a batch until its outcome is known, over as many connections as that takes."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from ...append import AppendResult
from ...errors import TrackingConflict, Unavailable
from ...event import Event
from ...retag import Retag
from .. import Outcome, Work
from .connection import Connection
from .writer import Writer

# How long a lost connection is tried again before the caller is told.
RECONNECT_SECONDS = 5.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5


class Pauses:
    """The pauses between attempts: they grow, and end after a while."""

    def __init__(self, seconds: float = RECONNECT_SECONDS) -> None:
        self._until = time.monotonic() + seconds
        self._pause = _FIRST_PAUSE

    def sleep(self) -> bool:
        """Wait before the next attempt; False if there should be none."""
        if time.monotonic() >= self._until:
            return False
        time.sleep(self._pause)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        return True


class Attempt:
    """Sending one batch until its outcome is known; `refused` are the refusals that it carries to be counted."""

    def __init__(self, head: int, refused: int) -> None:
        self.pauses = Pauses()
        self.refused = refused
        self.retags: dict[int, Sequence[Event]] = {}
        self.is_unknown = False
        self.was_written = False
        self._head = head
        self._lost: list[Connection] = []

    def was_lost(self, connection: Connection) -> None:
        """The connection broke, and nobody knows what became of the batch."""
        self.is_unknown = True
        self._lost.append(connection)

    def end_lost(self, connection: Connection) -> None:
        """End what may still wait for its turn on the server; else it could be judged after we were answered."""
        while self._lost:
            self._lost[-1].end_process(connection)
            self._lost.pop()

    def own(self, batch: Sequence[Work], outcomes: list[Outcome], writer: Writer) -> list[Outcome]:
        """What was written by an earlier try of this batch is no duplicate."""
        if not self.is_unknown:
            return outcomes
        return [self._own(work, outcome, writer) for work, outcome in zip(batch, outcomes, strict=True)]

    def _own(self, work: Work, outcome: Outcome, writer: Writer) -> Outcome:
        if isinstance(outcome, TrackingConflict) and not work.events:  # no id tells whose position it is
            return Unavailable(
                f"nobody knows whether it was written: {outcome}",
                hint="ask store.tracked(source) how far the log has come, and go on from there",
                written=None,
            )
        if (
            isinstance(work, Retag)
            or not isinstance(outcome, AppendResult)
            or outcome.first <= self._head
            or not (outcome.duplicate and work.events)
            or writer.position_of(work.events[0]) != outcome.first
        ):
            return outcome
        self.was_written = True
        return msgspec.structs.replace(outcome, duplicate=False)
