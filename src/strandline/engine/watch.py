"""Waiting for the head to move: costs no thread per waiter, and sees other processes too."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Sequence

from ..append import AppendResult
from ..errors import StoreClosed, StrandlineError
from . import Engine, Outcome
from .threads import LOOK_AGAIN_SECONDS, AnyBell, Bell, LoopBell, join, ring_all, start


class HeadWatch:
    """Wakes those who wait when the head moves. Appends of this process tell it, for others it looks.

    It has no lock: each change is one call in C, so an interrupt or a signal handler finds nothing half done.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiters: dict[AnyBell, int] = {}  # and the position that the head must pass
        self._head = 0
        self._told = 0  # the head that all waiters were told of
        self._is_closed = False
        self._looker: threading.Thread | None = None
        self._someone_waits = Bell()

    def look(self) -> None:
        """Look at the log, if anyone waits, and wake those whose position the head has passed."""
        if not self._waiters or self._is_closed:
            return
        self._tell(self._engine.head())

    def hear(self, outcomes: Sequence[Outcome]) -> None:
        """Wake those whose position appends of this process have passed, without a look. Without outcomes, look."""
        if not self._waiters or self._is_closed:
            return
        if not outcomes:  # a transaction failed, but some of its requests were written one by one
            self.look()
        written = [outcome.last for outcome in outcomes if isinstance(outcome, AppendResult)]
        self._tell(max(written, default=0))

    def _tell(self, head: int) -> None:
        if head > self._told:
            self._head = max(self._head, head)
            self._wake()
            self._told = head  # last: what interrupts the waking is made good by the next look

    def wait(
        self,
        after: int,
        is_stopped: Callable[[], bool],
        seconds: float | None = None,
        bell: Bell | None = None,
    ) -> bool:
        """Block until the head is beyond `after`, the waiter is stopped, the store is closed or time is up.

        Return whether the head is beyond `after`. Who stops the waiter rings `bell`, or calls `wake_all`.
        """
        bell = bell or Bell()
        end = None if seconds is None else time.monotonic() + seconds
        try:
            self._begin_to_wait(bell, after)
            while not self._is_over(after, is_stopped):
                left = LOOK_AGAIN_SECONDS if end is None else end - time.monotonic()
                if left <= 0:
                    break
                bell.wait(min(left, LOOK_AGAIN_SECONDS))
                self._look_if_alone()
        finally:
            self._waiters.pop(bell, None)
        return self._head > after

    async def wait_async(
        self, after: int, is_stopped: Callable[[], bool], seconds: float | None = None
    ) -> None:
        """Like `wait`, awaited."""
        bell = LoopBell()
        longest = math.inf if self._engine.is_shared else LOOK_AGAIN_SECONDS
        end = None if seconds is None else time.monotonic() + seconds
        try:
            self._begin_to_wait(bell, after)
            while not self._is_over(after, is_stopped):
                left = math.inf if end is None else end - time.monotonic()
                if left <= 0:
                    return
                await bell.wait(min(left, longest))
                self._look_if_alone()
        finally:
            self._waiters.pop(bell, None)

    def wake_all(self) -> None:
        """Let every waiter look at its own stop flag."""
        self._wake(everyone=True)

    def close(self) -> None:
        """End all waiting."""
        self._is_closed = True
        self._wake(everyone=True)
        self._someone_waits.ring()
        join(self._looker)

    def _is_over(self, after: int, is_stopped: Callable[[], bool]) -> bool:
        return self._head > after or self._is_closed or self._engine.is_lost or is_stopped()

    def _begin_to_wait(self, waiter: AnyBell, after: int) -> None:
        self._waiters[waiter] = after
        if self._engine.is_shared and not self._is_closed:
            if self._looker is None:
                self._looker = start(self._keep_looking, "strandline-watch")
            self._someone_waits.ring()
        self._look()  # an append that came before told nobody

    def _look_if_alone(self) -> None:
        """Look in place of the looker, which a log of this process has not: an interrupted append told nobody."""
        if not self._engine.is_shared:
            self._look()

    def _look(self) -> None:
        with contextlib.suppress(StoreClosed):  # then there is nothing to wait for
            self.look()

    def _wake(self, *, everyone: bool = False) -> None:
        waiters = list(self._waiters.items())
        if everyone:
            ring_all([bell for bell, _ in waiters])
            return
        ended = [bell for bell, after in waiters if self._head > after]
        ring_all(ended)
        for bell in ended:  # until they are awake, the next appends need not look for them
            self._waiters.pop(bell, None)

    def _keep_looking(self) -> None:
        while not self._is_closed:
            if not self._waiters:
                self._someone_waits.wait()
                continue
            with contextlib.suppress(StrandlineError):  # the waiter's next read will tell its caller
                self.look()
            if self._engine.is_lost:
                self.wake_all()
            self._engine.pause()
