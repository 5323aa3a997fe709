"""Reads that an event loop waits for by itself: to hand a short one to a thread and back costs about as much as the read."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import psycopg

from ...query import Query
from .. import Page, Span
from .connection import Connection
from .items import is_plain
from .search import Search, Statements

MOST_EVENTS = 500  # longer pages would keep the loop from everything else
READS_AT_ONCE = 4

Waiter = asyncio.Future[Connection | None]


class AwaitedReads:
    """Short reads of one event loop at a time, over connections that are idle.

    Everything else is left to threads, which make connections, try again, and say what went wrong.
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
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reads = 0
        self._waiters: deque[Waiter] = deque()

    async def page(self, query: Query, span: Span, size: int) -> Page | None:
        """See `Engine.read_page`; None if a thread has to read it."""
        loop = asyncio.get_running_loop()
        if not self._reads:
            self._loop = loop
        if self._loop is not loop or size > MOST_EVENTS or not is_plain(query):
            return None
        connection = self._take() if self._reads < READS_AT_ONCE else await self._turn(loop)
        if connection is None:
            return None
        self._reads += 1
        try:
            return await Search(connection, self._sql).page_awaited(query, span, size)
        except (psycopg.Error, NotImplementedError):  # a loop that cannot watch sockets
            connection.close()
            return None
        except BaseException:
            connection.close()  # the answer would be taken for that to the next question
            raise
        finally:
            self._reads -= 1
            self._pass_on(connection)

    async def _turn(self, loop: asyncio.AbstractEventLoop) -> Connection | None:
        """The connection of a read that has ended."""
        waiter: Waiter = loop.create_future()
        self._waiters.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled() and (connection := waiter.result()) is not None:
                self._pass_on(connection)
            raise

    def _pass_on(self, connection: Connection) -> None:
        """To who waits longest; a broken one to nobody, so that a thread can make another."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                if connection.is_usable:
                    waiter.set_result(connection)
                    return
                waiter.set_result(None)
        self._give_back(connection)
