"""Waiting for the head to move: costs no thread per waiter, and sees other processes too."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator

from ..errors import StoreClosed, StrandlineError
from . import Engine


class HeadWatch:
    """Wakes those who wait when the head moves. Appends of this process tell it, for others it looks."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._condition = threading.Condition()
        self._futures: dict[asyncio.Future[None], int] = {}
        self._waiters = 0
        self._are_waiting = threading.Event()
        self._head = 0
        self._is_closed = False
        self._looker: threading.Thread | None = None

    def look(self) -> None:
        """Look at the log, if anyone waits, and wake those whose position the head has passed."""
        if not self._waiters or self._is_closed:
            return
        head = self._engine.head()
        with self._condition:
            if head > self._head:
                self._head = head
                self._wake()

    def wait(self, after: int, is_stopped: Callable[[], bool], seconds: float | None = None) -> None:
        """Block until the head is beyond `after`, the waiter is stopped, the store is closed or time is up."""
        with self._waiter(), self._condition:
            self._condition.wait_for(lambda: self._is_over(after, is_stopped), seconds)

    async def wait_async(
        self, after: int, is_stopped: Callable[[], bool], seconds: float | None = None
    ) -> None:
        """Like `wait`, awaited."""
        with self._waiter():
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            with self._condition:
                if self._is_over(after, is_stopped):
                    return
                self._futures[future] = after
            try:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await future
            finally:
                with self._condition:
                    self._futures.pop(future, None)

    def wake_all(self) -> None:
        """Let every waiter look at its own stop flag."""
        with self._condition:
            self._wake(everyone=True)

    def close(self) -> None:
        """End all waiting."""
        with self._condition:
            self._is_closed = True
            self._wake(everyone=True)
            self._are_waiting.set()
        if self._looker is not None:
            self._looker.join()

    def _is_over(self, after: int, is_stopped: Callable[[], bool]) -> bool:
        return self._head > after or self._is_closed or is_stopped()

    @contextlib.contextmanager
    def _waiter(self) -> Iterator[None]:
        with self._condition:
            self._waiters += 1
            self._are_waiting.set()
            self._start_looking()
        try:
            with contextlib.suppress(StoreClosed):  # then there is nothing to wait for
                self.look()  # an append that came before we were counted told nobody
            yield
        finally:
            with self._condition:
                self._waiters -= 1
                if not self._waiters and not self._is_closed:
                    self._are_waiting.clear()

    def _wake(self, *, everyone: bool = False) -> None:
        self._condition.notify_all()
        for future, after in list(self._futures.items()):
            if everyone or self._head > after:
                del self._futures[future]
                with contextlib.suppress(RuntimeError):  # its loop is closed: nobody waits
                    future.get_loop().call_soon_threadsafe(_resolve, future)

    def _start_looking(self) -> None:
        if self._looker is None and self._engine.is_shared and not self._is_closed:
            self._looker = threading.Thread(target=self._keep_looking, name="strandline-watch", daemon=True)
            self._looker.start()

    def _keep_looking(self) -> None:
        while self._are_waiting.wait() and not self._is_closed:
            with contextlib.suppress(StrandlineError):  # the waiter's next read will tell its caller
                self.look()
            self._engine.pause()


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
