"""Connections that nobody uses, and those who wait for one: first come, first served.

A queue would let whoever runs just now take what another one was woken for, again and again with many threads.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque

from .connection import Connection


class _Waiting:
    """Somebody who waits, and the connection that was handed over."""

    __slots__ = ("connection", "wake")

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.wake = threading.Lock()
        self.wake.acquire()


class IdleConnections:
    """For threads and event loops alike; only threads wait."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._connections: deque[Connection] = deque()
        self._waiting: deque[_Waiting] = deque()

    def __len__(self) -> int:
        return len(self._connections)

    def put(self, connection: Connection) -> None:
        """Hand it to the first who waits, or keep it."""
        with self._mutex:
            if not self._waiting:
                self._connections.append(connection)
                return
            first = self._waiting.popleft()
            first.connection = connection
        first.wake.release()

    def get_nowait(self) -> Connection | None:
        """One that is here."""
        with self._mutex:
            return self._connections.popleft() if self._connections else None

    def get(self, seconds: float) -> Connection | None:
        """One that is here, or that is given back within so many seconds."""
        with self._mutex:
            if self._connections:
                return self._connections.popleft()
            waiting = _Waiting()
            self._waiting.append(waiting)
        try:
            waiting.wake.acquire(timeout=seconds)
        except BaseException:  # an interrupt
            if (connection := self._left(waiting)) is not None:
                self.put(connection)
            raise
        return self._left(waiting)

    def _left(self, waiting: _Waiting) -> Connection | None:
        """What was handed to somebody who waits no more."""
        with self._mutex:
            if waiting.connection is None:
                with contextlib.suppress(ValueError):  # an interrupt kept the connection from coming over
                    self._waiting.remove(waiting)
        return waiting.connection
