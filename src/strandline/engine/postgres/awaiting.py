"""Reads that an event loop waits for by itself: a thread in between takes a quarter of the client's time for a short one."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable

import psycopg

from ...query import Query
from .. import Page, Span
from .connection import STALE_STATEMENT, Connection
from .failures import is_lost
from .items import is_plain
from .search import Search, Statements

MOST_EVENTS = 500  # longer pages would keep the loop from everything else
READS_AT_ONCE = 4


class AwaitedReads:
    """Short reads of one event loop at a time, over connections that are idle.

    All else is left to threads: other reads, other loops, to make a connection, and to try again when one broke.
    """

    def __init__(
        self,
        statements: Statements,
        take: Callable[[], Connection | None],
        give_back: Callable[[Connection], None],
    ) -> None:
        self._sql = statements
        self._take = take
        self._give_back = give_back
        self._lock = threading.Lock()  # guards the rest
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reads = 0
        self._waiters: deque[asyncio.Future[None]] = deque()

    async def page(self, query: Query, span: Span, size: int) -> Page | None:
        """See `Engine.read_page`; None if a thread has to read it."""
        if size > MOST_EVENTS or not is_plain(query) or not await self._enter():
            return None
        try:
            connection = self._take()
            return None if connection is None else await self._read(connection, query, span, size)
        finally:
            self._leave()

    async def _read(self, connection: Connection, query: Query, span: Span, size: int) -> Page | None:
        try:
            return await Search(connection, self._sql).page_awaited(query, span, size)
        except BaseException as error:
            connection.close()  # it may yet get an answer, which would be taken for that to the next question
            # There are loops that cannot watch sockets.
            if isinstance(error, (*STALE_STATEMENT, NotImplementedError)):
                return None
            if isinstance(error, psycopg.Error) and is_lost(error):
                return None
            raise
        finally:
            self._give_back(connection)

    async def _enter(self) -> bool:
        """Wait for a turn; False if the turns are another loop's."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if not self._reads:
                self._loop = loop
            if self._loop is not loop:
                return False
            if self._reads < READS_AT_ONCE:
                self._reads += 1
                return True
            turn: asyncio.Future[None] = loop.create_future()
            self._waiters.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._leave()
            raise
        return True

    def _leave(self) -> None:
        """Let the next one in who still waits."""
        with self._lock:
            while self._waiters:
                turn = self._waiters.popleft()
                if not turn.done():
                    turn.set_result(None)
                    return
            self._reads -= 1
