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
from .connection import Connection
from .items import is_plain
from .search import Statements, asked, page_of

MOST_EVENTS = 500  # longer pages would keep the loop from everything else
CALLS_AT_ONCE = 4
READS_IN_CALL = 16

Rows = list[tuple[Any, ...]]


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
        self.calls = 0
        self._tasks: set[asyncio.Task[None]] = set()  # a loop keeps no reference to them

    def call(self, answering: Coroutine[Any, Any, None]) -> None:
        """Answer beside the calls that are under way."""
        self.calls += 1
        task = self.loop.create_task(answering)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def let_go(self) -> None:
        """Give up what a loop that was closed had under way; its connections are closed."""
        for task in self._tasks:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                cast("Coroutine[Any, Any, None]", task.get_coro()).close()

    def next(self, most: int) -> list[_Question]:
        """Those who have waited longest."""
        return [self.waiting.popleft() for _ in range(min(most, len(self.waiting)))]

    def leave_to_threads(self, count: int) -> None:
        """Let so many of those who wait read in threads."""
        for question in self.next(count):
            question.answer(None)

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do, or nobody can do it any more."""
        return not self.calls or self.loop.is_closed()


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
        loop = asyncio.get_running_loop()
        question = _Question(query, span, size, loop)
        with self._lock:
            reader = self._reader
            if reader is None or reader.is_done:
                if reader is not None:
                    reader.let_go()
                reader = self._reader = _Reader(loop)
            if reader.loop is not loop:
                return None
            reader.waiting.append(question)
            if reader.calls < CALLS_AT_ONCE:
                reader.call(self._answer_all(reader))
        rows = await question.rows
        return None if rows is None else page_of(rows, span, size)

    async def _answer_all(self, reader: _Reader) -> None:
        """Answer those who wait, until nobody does."""
        try:
            while reader.waiting:
                connection = self._take()
                if connection is None:
                    # A thread makes one, or waits for one; who does not go there is answered by the calls under way.
                    reader.leave_to_threads(1 if reader.calls > 1 else len(reader.waiting))
                    return
                await self._answer(reader.next(READS_IN_CALL), connection)
        except BaseException:
            reader.leave_to_threads(len(reader.waiting))
            raise
        finally:
            reader.calls -= (
                1  # here and not when the task has ended: whoever asks in between must not count on it
            )

    async def _answer(self, questions: Sequence[_Question], connection: Connection) -> None:
        answers: Sequence[Rows | None] = [None] * len(questions)
        try:
            answers = await connection.call_awaited(self._sql.read, [each.values for each in questions])
        except BaseException as error:
            connection.close()  # it may yet get an answer, which would be taken for that to the next question
            # A thread tries again, and tells the one who asked what is wrong. (There are loops that cannot watch sockets.)
            if not isinstance(error, (psycopg.Error, NotImplementedError)):
                raise
        finally:
            self._give_back(connection)
            for question, rows in zip(questions, answers, strict=True):
                question.answer(rows)
