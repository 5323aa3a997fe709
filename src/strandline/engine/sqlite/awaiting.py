"""Reads of event loops: those that are asked for together see the same state of the log, so it is looked up once.

Such a read keeps the interpreter lock, so another thread could not do it meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from ...query import Query
from .. import Page, Span
from .search import Search

TOGETHER = 8  # reads; then the loop has its turn
MOST_EVENTS = 500  # likewise

Look = Callable[[Callable[[Search], None]], bool]
"""Lets a question look at the log; False if it would have to wait."""


class _Question(NamedTuple):
    query: Query
    span: Span
    size: int
    page: asyncio.Future[Page | None]

    def answer(self, page: Page | None) -> None:
        """Wake the one who asked; None sends it to a thread."""
        if not self.page.done():  # it may have been cancelled
            self.page.set_result(page)


class _Group:
    """Those of one event loop who wait for their turn. Unless there are none, the loop is to call `_answer_some`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.questions: deque[_Question] = deque()


class AwaitedReads:
    """Answers the reads of event loops a few at a time, when what is ready to run has run."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._group: _Group | None = None

    async def page(self, query: Query, span: Span, size: int) -> Page | None:
        """See `Engine.read_page`; None if a thread has to read it."""
        loop, group = asyncio.get_running_loop(), self._group
        if group is None or group.loop is not loop:
            group = self._group = _Group(loop)
        if not group.questions:
            loop.call_soon(self._answer_some, group)
        question = _Question(query, span, size, loop.create_future())
        group.questions.append(question)
        return await question.page

    def _answer_some(self, group: _Group) -> None:
        now: deque[_Question] = deque()

        def answer(search: Search) -> None:
            made = 0
            while now and made < MOST_EVENTS:
                question = now[0]
                if not question.page.done():
                    page = search.read_page(question.query, question.span, question.size)
                    made += len(page.events)
                    question.answer(page)
                now.popleft()

        is_answered = False
        try:
            while group.questions and len(now) < TOGETHER:
                now.append(group.questions.popleft())
            is_answered = self._look(answer)
        except Exception:  # noqa: BLE001, S110  (a thread tries again, and tells the one who asked what is wrong)
            pass
        finally:
            if is_answered:
                group.questions.extendleft(reversed(now))
            else:
                for question in now:
                    question.answer(None)
            if group.questions:
                group.loop.call_soon(self._answer_some, group)
