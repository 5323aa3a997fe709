"""Threads of the store's own, and how they wake each other.

`threading.Condition` and `threading.Event` are written in Python: an interrupt inside them leaves their lock taken.
A `Bell` is one lock, and each of its methods is one call in C. Waiting has a limit everywhere, so a bell that an
interrupt kept from ringing costs a moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from collections.abc import Callable, Iterable, Iterator

from ..errors import Unavailable

LOOK_AGAIN_SECONDS = 1.0
"""How long to wait for a bell before looking whether there is something to do without it."""


class Bell:
    """Wakes one thread that waits for it. Rung before the wait, it ends the wait at once."""

    __slots__ = ("_is_silent",)

    def __init__(self) -> None:
        self._is_silent = threading.Lock()
        self._is_silent.acquire()

    def ring(self) -> None:
        """Wake the thread that waits, or the next one that will."""
        if self._is_silent.locked():
            with contextlib.suppress(RuntimeError):  # another thread was faster
                self._is_silent.release()

    def wait(self, seconds: float | None = None) -> None:
        """Wait until the bell rings, or until it is time to look without it."""
        self._is_silent.acquire(timeout=LOOK_AGAIN_SECONDS if seconds is None else seconds)


class LoopBell:
    """Wakes one task that waits for it. Make it in the task's event loop. It may be rung from any thread."""

    __slots__ = ("_rung", "loop")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._rung: asyncio.Future[None] = self.loop.create_future()

    def ring(self) -> None:
        """Wake the task that waits, or the next one that will."""
        ring_all((self,))

    def ring_here(self) -> None:
        """Wake it from a callback of its own event loop."""
        if not self._rung.done():
            self._rung.set_result(None)

    async def wait(self, seconds: float) -> None:
        """Wait until it is rung or time is up."""
        # Half the time that `asyncio.timeout` takes, and a thousand that wait do this each second.
        timer = None if seconds == math.inf else self.loop.call_later(seconds, self.ring_here)
        try:
            await self._rung
        finally:
            if timer is not None:
                timer.cancel()
            self._rung = self.loop.create_future()


AnyBell = Bell | LoopBell


def ring_all(bells: Iterable[AnyBell]) -> None:
    """Ring bells from any thread. Those of one event loop are rung by one call into it, for such a call is slow."""
    loops: dict[asyncio.AbstractEventLoop, list[LoopBell]] = {}
    for bell in bells:
        if isinstance(bell, LoopBell):
            loops.setdefault(bell.loop, []).append(bell)
        else:
            bell.ring()
    for loop, theirs in loops.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(_ring_here, theirs)


def _ring_here(bells: list[LoopBell]) -> None:
    for bell in bells:
        bell.ring_here()


def start(work: Callable[[], None], name: str) -> threading.Thread:
    """Start a thread; raises `Unavailable` if the system has none left."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    with typed():
        thread.start()
    return thread


def join(thread: threading.Thread | None) -> None:
    """Wait for the end of a thread, unless it is this one."""
    if thread is not None and thread is not threading.current_thread():
        thread.join()


@contextlib.contextmanager
def typed() -> Iterator[None]:
    """Raise `Unavailable` if a thread cannot be started."""
    try:
        yield
    except RuntimeError as error:
        if "start new thread" not in str(error):
            raise
        raise Unavailable(
            "the system has no thread left for this process",
            written=False,
            hint="end some threads, or raise the limit: ulimit -u, or pids.max of the container",
        ) from error
