"""Reads that an event loop waits for by itself: a thread in between takes a quarter of the client's time for a short one.

As appends do, reads that wait together go together: what a question costs besides its answer is paid once for all.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, cast

import psycopg

from ...query import Query
from .. import Page, Span
from .binary import bigint
from .connection import Connection, Rows
from .items import is_plain
from .search import Statements, asked, head_of, page_of

MOST_EVENTS = 500  # longer pages would keep the loop from everything else
CALLS_AT_ONCE = 4
READS_IN_CALL = 16


class _Question:
    """What somebody wants to read, and the future of its rows: None if a thread has to read them."""

    def __init__(self, query: Query, span: Span, size: int, loop: asyncio.AbstractEventLoop) -> None:
        self.values = asked(query, span, size)
        self.rows: asyncio.Future[Rows | None] = loop.create_future()

    def answer(self, rows: Rows | None) -> None:
        """Wake the one who asked."""
        if not (self.rows.done() or self.rows.get_loop().is_closed()):  # it may have been cancelled
            self.rows.set_result(rows)


class _Reader:
    """What one event loop reads."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.waiting: deque[_Question] = deque()
        self.calls: set[asyncio.Task[Any]] = set()

    def call(self, answering: Coroutine[Any, Any, None]) -> None:
        """Answer beside the calls that are under way."""
        task = self.loop.create_task(answering)
        if not task.done():
            self.calls.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if task in self.calls:  # it was cancelled before it began
            self.calls.discard(task)
            self.leave_to_threads(len(self.waiting))

    def let_go(self) -> None:
        """Give up what a loop that was closed had under way; its connections are closed."""
        for task in tuple(self.calls):
            with contextlib.suppress(RuntimeError):  # of loops that complain of being closed
                cast("Coroutine[Any, Any, None]", task.get_coro()).close()

    def next(self, most: int) -> list[_Question]:
        """Those who have waited longest, and wait still."""
        found: list[_Question] = []
        while self.waiting and len(found) < most:
            question = self.waiting.popleft()
            if not question.rows.done():
                found.append(question)
        return found

    def leave_to_threads(self, count: int) -> None:
        """Let so many of those who wait read in threads."""
        for question in self.next(count):
            question.answer(None)


class AwaitedReads:
    """Short reads of one event loop at a time, over connections that are idle.

    All else is left to threads: other reads, other loops, to make a connection, and to try again when something failed.
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
        self._lock = threading.Lock()  # between event loops, which are in threads of their own
        self._reader: _Reader | None = None

    async def page(self, query: Query, span: Span, size: int) -> Page | None:
        """See `Engine.read_page`; None if a thread has to read it."""
        if size > MOST_EVENTS or not is_plain(query):
            return None
        self.forget_closed_loop()
        loop = asyncio.get_running_loop()
        question = _Question(query, span, size, loop)
        with self._lock:
            reader = self._reader
            if reader is None or not reader.calls:
                reader = self._reader = _Reader(loop)
            if reader.loop is not loop:
                return None
            reader.waiting.append(question)
            if len(reader.calls) < CALLS_AT_ONCE:
                reader.call(self._answer_all(reader))
        rows = await question.rows
        return None if rows is None else page_of(rows, span, size)

    def forget_closed_loop(self) -> None:
        """Give back the connections of a loop that was closed while it read."""
        reader = self._reader
        if reader is not None and reader.loop.is_closed():
            with self._lock:
                self._reader = None if self._reader is reader else self._reader
            reader.let_go()

    async def _answer_all(self, reader: _Reader) -> None:
        """Answer those who wait, until nobody does."""
        own = cast("asyncio.Task[None]", asyncio.current_task())
        connection: Connection | None = None
        try:
            while questions := reader.next(READS_IN_CALL):
                connection = connection or self._take()
                if connection is None:
                    reader.waiting.extendleft(reversed(questions))
                    # A thread makes one, or waits for one; who does not go there is answered by the calls under way.
                    reader.leave_to_threads(1 if len(reader.calls) > 1 else len(reader.waiting))
                    return
                if not await _answer(questions, connection, self._sql):
                    self._give_back(connection)
                    connection = None
        except BaseException:
            reader.leave_to_threads(len(reader.waiting))
            raise
        finally:
            if connection is not None:
                self._give_back(connection)
            # Now and not when the task has ended: whoever asks in between must not count on it.
            reader.calls.discard(own)


async def _answer(questions: Sequence[_Question], connection: Connection, statements: Statements) -> bool:
    """Answer questions as their rows come; whether the connection can be used again."""
    waiting = deque(questions)
    made = 0
    is_usable = False
    mark = connection.past.mark
    statement, values = statements.read, [each.values for each in questions]
    if not connection.has_past:
        statement, values = statements.read_comparing, [(*each, bigint(mark.position)) for each in values]
    try:
        async with contextlib.aclosing(connection.call_awaited(statement, values)) as answers:
            async for rows in answers:
                fits = rows is not None and connection.fits_past(mark, *head_of(rows))
                waiting.popleft().answer(rows if fits else None)
                made += len(rows or ())
                if made > MOST_EVENTS:
                    made = 0
                    await asyncio.sleep(0)
        is_usable = True
    except (psycopg.Error, NotImplementedError):  # there are loops that cannot watch sockets
        pass
    finally:
        if not is_usable:
            connection.close()  # it may yet get an answer, which would be taken for that to the next question
        for question in waiting:
            question.answer(None)  # a thread tries again, and tells the one who asked what is wrong
    return is_usable
