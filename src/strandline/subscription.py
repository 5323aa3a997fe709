"""Subscriptions: they catch up with the log page by page, and then hear of each new event from its tail."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice
from operator import length_hint
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from .awaiting import MayBeAwaited
from .engine import Page, Span
from .engine.tail import Inbox, News, Tail
from .engine.threads import LOOK_AGAIN_SECONDS, AnyBell, Bell, LoopBell
from .errors import InvalidInput, StoreClosed
from .event import SequencedEvent
from .query import Query
from .reading import NEXT_PAGES, next_size

FOREVER = math.inf
MOST_SECONDS = 86_400.0
FIRST_SIZE = 500
SMALL_SIZE = 10
TOGETHER_SECONDS = 0.04


class Batch(NamedTuple):
    """Some events of a subscription, perhaps none, and the position up to which there are no others."""

    events: list[SequencedEvent]
    position: int


class Subscribed(Protocol):
    """What a subscription needs of a store."""

    tail: Tail

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        ...

    def read_page(self, query: Query, span: Span, size: int) -> Page:
        """A page of a read; raises if the store was closed meanwhile."""
        ...


class AsyncSubscribed(Protocol):
    """The same for asyncio."""

    @property
    def store(self) -> Subscribed:
        """The store behind it."""
        ...

    async def read_page(self, query: Query, span: Span, size: int) -> Page:
        """See `Subscribed.read_page`."""
        ...

    async def in_long_thread(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Run a call in a thread."""
        ...


class Place:
    """Where a subscription is. An error or an interrupt leaves it there: who asks again misses nothing."""

    def __init__(self, tail: Tail, query: Query, after: int) -> None:
        self.query = query
        self.after = after
        self.span: Span | None = Span(after)  # what to read next; None if there is nothing but to wait
        self.size = FIRST_SIZE
        self._tail = tail
        self._inbox: Inbox | None = None
        self._at_hand: Iterator[SequencedEvent] = iter(())

    def __del__(self) -> None:
        self.leave()

    def next_at_hand(self) -> SequencedEvent | None:
        """The next event that was read already."""
        return next(self._at_hand, None)

    def batch(self, size: int) -> Batch:
        """At most `size` of the events that were read already."""
        events = list(islice(self._at_hand, size))
        if events and length_hint(self._at_hand):
            return Batch(events, events[-1].position)
        return Batch(events, self.after if self.span is None else self.span.after)

    def has_read(self, page: Page) -> None:
        """Go on with the events of a page, and then behind it."""
        after, size = max(self.after, page.head), next_size(page)
        # In one line: an interrupt finds all of it done or nothing.
        self._at_hand, self.after, self.span, self.size = iter(page.events), after, page.rest, size

    def has_heard(self, news: News, events: list[SequencedEvent]) -> None:
        """Go on with those events of the news that match."""
        self._at_hand, self.after, self.span = iter(events), news.after, news.span
        if news.is_last:
            self.leave()

    def inbox(self, bell: AnyBell) -> Inbox:
        """The inbox that the tail fills for this subscription, with the bell of the one who waits now."""
        inbox = self._inbox
        if inbox is None:
            inbox = self._inbox = Inbox(self.query)
        inbox.bell = bell
        return inbox

    def page_size(self, most: int) -> int:
        """How many events to read at once for batches of at most so many: less of large ones, and for small batches."""
        return max(min(most, SMALL_SIZE, self.size), self.size * most // NEXT_PAGES)

    def news(self, inbox: Inbox, most: int) -> News | None:
        """At most so many events that the tail has; None if it has nothing, apart from how far it looked."""
        self._tail.put(inbox)
        news = self._tail.news(inbox, self.after, min(most, FIRST_SIZE))
        if news is None or news.events or news.span:
            return news
        self.after = news.after
        return None

    def leave(self) -> None:
        """Have the tail forget this place until it is asked for news again, and wake the one who waits."""
        inbox, self._inbox = self._inbox, None
        if inbox is not None:
            self.forget(inbox)
            if inbox.bell is not None:
                inbox.bell.ring()

    def forget(self, inbox: Inbox) -> None:
        """Have the tail forget an inbox."""
        self._tail.remove(inbox)


class Subscription:
    """A blocking iterator over the log that waits for more at its end, until it is stopped.

    Threads that share one get different events.
    """

    def __init__(self, store: Subscribed, query: Query, after: int) -> None:
        self._store = store
        self._query = query
        self._is_stopped = False
        self._place = Place(store.tail, query, after)
        self._turn = threading.Lock()

    def batches(self, seconds: float = 1.0, size: int = 500) -> Iterator[Batch]:
        """Yield what is new in batches: as soon as there is something, and an empty one after so many seconds.

        `batch.position` says how far the subscription has looked: to go on from there later misses nothing.
        """
        return self._batches(check_seconds(seconds), check_size(size))

    def stop(self) -> None:
        """End the iteration, from any thread."""
        self._is_stopped = True
        self._place.leave()

    def __iter__(self) -> Iterator[SequencedEvent]:
        return self

    def __next__(self) -> SequencedEvent:
        event = None if self._is_over() else self._place.next_at_hand()
        if event is None:
            with self._turn:
                event = self._next()
        if event is None:
            raise StopIteration
        return event

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _is_over(self) -> bool:
        return self._is_stopped or self._store.is_closed

    def _next(self) -> SequencedEvent | None:
        while not self._is_over():
            event = self._place.next_at_hand()
            if event is not None:
                return event
            self._go_on(FOREVER, NEXT_PAGES)
        return None

    def _batches(self, seconds: float, size: int) -> Iterator[Batch]:
        while True:
            with self._turn:
                batch = self._next_batch(time.monotonic() + seconds, size)
            if batch is None:
                return
            yield batch

    def _next_batch(self, end: float, size: int) -> Batch | None:
        while not self._is_over():
            batch = self._place.batch(size)
            if batch.events or time.monotonic() >= end:
                return batch
            self._go_on(end, size)
        return None

    def _go_on(self, end: float, size: int) -> None:
        """Read a page, or wait for news until they come, it is over or time is up."""
        place = self._place
        if place.span is not None:
            with contextlib.suppress(StoreClosed):  # then it is over
                place.has_read(self._store.read_page(self._query, place.span, place.page_size(size)))
            return
        news = self._news(end, size)
        if news is not None:
            place.has_heard(news, _matching(self._query, news.events))

    def _news(self, end: float, size: int) -> News | None:
        bell = Bell()
        inbox = self._place.inbox(
            bell
        )  # before the look at the stop flag, which whoever sets it tells the bell
        while not self._is_over():
            news = self._place.news(inbox, size)
            left = end - time.monotonic()
            if news is not None or left <= 0:
                return news
            bell.wait(min(left, LOOK_AGAIN_SECONDS))
        self._place.forget(inbox)
        return None


class AsyncSubscription(MayBeAwaited[SequencedEvent]):
    """Iterates over the log and waits for more at its end, until it is stopped.

    Tasks that share one get different events; one that is cancelled while it waits takes none along.
    """

    def __init__(self, store: AsyncSubscribed, query: Query, after: int) -> None:
        self._store = store
        self._query = query
        self._is_stopped = False
        self._place = Place(store.store.tail, query, after)
        self._turn = asyncio.Lock()

    def batches(self, seconds: float = 1.0, size: int = 500) -> AsyncIterator[Batch]:
        """See `Subscription.batches`."""
        return self._batches(check_seconds(seconds), check_size(size))

    def stop(self) -> None:
        """End the iteration, from any thread or task."""
        self._is_stopped = True
        self._place.leave()

    def __aiter__(self) -> AsyncIterator[SequencedEvent]:
        return self

    async def __anext__(self) -> SequencedEvent:
        event = None if self._is_over() else self._place.next_at_hand()
        if event is None:
            async with self._turn:
                event = await self._next()
        if event is None:
            raise StopAsyncIteration
        return event

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _is_over(self) -> bool:
        return self._is_stopped or self._store.store.is_closed

    async def _next(self) -> SequencedEvent | None:
        while not self._is_over():
            event = self._place.next_at_hand()
            if event is not None:
                return event
            await self._go_on(FOREVER, NEXT_PAGES)
        return None

    async def _batches(self, seconds: float, size: int) -> AsyncIterator[Batch]:
        while True:
            async with self._turn:
                batch = await self._next_batch(_together(time.monotonic(), seconds), size)
            if batch is None:
                return
            yield batch

    async def _next_batch(self, end: float, size: int) -> Batch | None:
        while not self._is_over():
            batch = self._place.batch(size)
            if batch.events or time.monotonic() >= end:
                return batch
            await self._go_on(end, size)
        return None

    async def _go_on(self, end: float, size: int) -> None:
        place = self._place
        if place.span is not None:
            with contextlib.suppress(StoreClosed):  # then it is over
                page = await self._store.read_page(self._query, place.span, place.page_size(size))
                place.has_read(page)
            return
        news = await self._news(end, size)
        if news is not None:
            events = news.events
            if events and self._query.has_where:
                events = await self._store.in_long_thread(_matching, self._query, events)
            place.has_heard(news, events)

    async def _news(self, end: float, size: int) -> News | None:
        bell = LoopBell()
        inbox = self._place.inbox(
            bell
        )  # before the look at the stop flag, which whoever sets it tells the bell
        while not self._is_over():
            news = self._place.news(inbox, size)
            left = end - time.monotonic()
            if news is not None or left <= 0:
                return news
            await bell.wait(left)
        self._place.forget(inbox)
        return None


def check_seconds(seconds: object) -> float:
    """Return how long to wait for a batch."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds <= MOST_SECONDS:
        raise InvalidInput(
            f"seconds is a number above 0 and up to {MOST_SECONDS:,.0f}, not {seconds!r:.40}",
            hint="leave it out for a batch each second",
        )
    return float(seconds)


def check_size(size: object) -> int:
    """Return how many events a batch has at most."""
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= NEXT_PAGES:
        raise InvalidInput(
            f"size is a whole number from 1 to {NEXT_PAGES:,}, not {size!r:.40}",
            hint="leave it out for 500",
        )
    return size


def _together(now: float, seconds: float) -> float:
    """Return the end of a wait, a little early, so that of a thousand tasks some dozens wake at the same time.

    One by one, each would cost the event loop more than twice as much.
    """
    if seconds < TOGETHER_SECONDS * 10:
        return now + seconds
    return math.floor((now + seconds) / TOGETHER_SECONDS) * TOGETHER_SECONDS


def _matching(query: Query, events: list[SequencedEvent]) -> list[SequencedEvent]:
    return [event for event in events if query.matches(event)] if query.has_where else events
