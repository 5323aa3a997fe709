"""The tail of a log: reads each new event once, for all subscriptions of the process that wait for news.

A subscription catches up by reading the log itself. Then it puts an inbox to the tail. The tail is a thread that reads
what is new, and tells each inbox the positions of the events that match its query. The events themselves are kept in
one window for all. An inbox that is not emptied for too long is dropped, and its subscription catches up again.

Only the tail's own thread touches the index of queries. Others leave their requests in queues, and every such step is
one call in C, so an interrupt or a signal handler finds nothing half done.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from ..errors import StoreClosed, Unavailable
from ..event import SequencedEvent
from ..query import Query
from . import Engine, Page, Span
from .interests import Interests
from .threads import AnyBell, Bell, join, ring_all, start
from .watch import HeadWatch

PAGE_EVENTS = 2_000
WINDOW_EVENTS = 4_096
WINDOW_BYTES = 8 * 1024 * 1024
NEWS_BYTES = 512 * 1024
PAUSE_SECONDS = 0.005
"""How long to let news gather after some were read: a busy log is read some hundred times a second, not for each commit."""
TRY_AGAIN_SECONDS = 0.1


class News(NamedTuple):
    """What an inbox has for its subscription."""

    events: list[SequencedEvent]
    after: int
    """There is nothing else up to here."""
    span: Span | None
    """What to read from the log before asking again, None if nothing."""
    is_last: bool
    """Whether the inbox was dropped. After `span` is read, a new one is needed."""


class Window:
    """The newest events that somebody has yet to take: bounded in number and in bytes."""

    def __init__(self) -> None:
        self._events: dict[int, SequencedEvent] = {}
        self._order: deque[SequencedEvent] = deque()
        self._bytes = 0

    def add(self, event: SequencedEvent) -> None:
        """Keep an event, in the place of the oldest ones if there are too many."""
        self._events[event.position] = event
        self._order.append(event)
        self._bytes += _size_of(event)
        while len(self._order) > WINDOW_EVENTS or (self._bytes > WINDOW_BYTES and len(self._order) > 1):
            oldest = self._order.popleft()
            self._bytes -= _size_of(oldest)
            del self._events[oldest.position]

    def get(self, position: int) -> SequencedEvent | None:
        """Return the event at a position, None if it is not kept any longer."""
        return self._events.get(position)

    def clear(self) -> None:
        """Forget all events."""
        self._events.clear()
        self._order.clear()
        self._bytes = 0


class Inbox:
    """The positions that the tail has for one subscription. The tail adds, the subscription takes."""

    __slots__ = ("bell", "positions", "query", "since", "until")

    def __init__(self, query: Query) -> None:
        self.query = query
        self.bell: AnyBell | None = None
        self.positions: deque[int] = deque()
        self.since: int | None = None
        """The tail tells of events after this position, None as long as it has not begun."""
        self.until: int | None = None
        """The tail told of no event after this position, None if it goes on."""


class Tail:
    """Reads what is new in a log, and hands it out."""

    def __init__(self, engine: Engine, watch: HeadWatch) -> None:
        self._engine = engine
        self._watch = watch
        self._interests = Interests[Inbox]()
        self._window = Window()
        self._inboxes: dict[Inbox, None] = {}  # all that were put, whether the thread has seen them or not
        self._arriving: deque[Inbox] = deque()
        self._leaving: deque[Inbox] = deque()
        self._bell = Bell()
        self._thread: threading.Thread | None = None
        self._only_one = threading.Lock()
        self._is_closed = False
        self._position = 0
        self._is_quiet = True  # the last look found nothing new

    def put(self, inbox: Inbox) -> None:
        """Have the tail fill an inbox from now on. To repeat it changes nothing."""
        if inbox in self._inboxes or inbox.until is not None:
            return
        if self._thread is None and not self._is_closed:
            self._thread = start(self._run, "strandline-tail")
        self._arriving.append(inbox)
        self._inboxes[inbox] = None  # after that: an interrupt in between is made good by the next call
        self._bell.ring()
        if self._is_closed:  # perhaps since the caller looked
            self._ring([inbox])

    def remove(self, inbox: Inbox) -> None:
        """Forget an inbox; from any thread, also from a finalizer."""
        if self._inboxes.pop(inbox, inbox) is None:
            self._leaving.append(inbox)
            self._bell.ring()

    def news(self, inbox: Inbox, after: int, most: int) -> News | None:
        """Return at most so many events that an inbox has after a position, None if the tail has not begun to fill it.

        What it has up to there it forgets. It gives at most 512 KiB of data, or one larger event.
        """
        looked = self._position  # first: what the tail hands out from now on is beyond it
        since = inbox.since
        until = inbox.until
        if since is None:
            return None
        if after < since:
            return News([], after, Span(after, since), is_last=False)
        while inbox.positions and inbox.positions[0] <= after:
            inbox.positions.popleft()
        positions = list(inbox.positions)
        events: list[SequencedEvent] = []
        size = 0
        for position in positions[:most]:
            event = self._window.get(position)
            if event is None:  # it has waited for too long
                last = events[-1].position if events else after
                return News(events, last, Span(last), is_last=True)
            size += _size_of(event)
            if events and size > NEWS_BYTES:
                break
            events.append(event)
        if events and events[-1].position < positions[-1]:
            return News(events, events[-1].position, None, is_last=False)
        last = max(after, looked if until is None else until, *(event.position for event in events[-1:]))
        if until is None:
            return News(events, last, None, is_last=False)
        return News(events, last, Span(last), is_last=True)

    def close(self) -> None:
        """End, and wake all who wait."""
        self._is_closed = True
        self._bell.ring()
        self._ring(list(self._inboxes))
        join(self._thread)

    def _run(self) -> None:
        if not self._only_one.acquire(blocking=False):  # an interrupt had a second one started
            return
        while not self._is_closed:
            try:
                self._do_requests()
                if self._interests:
                    self._follow()
                else:
                    self._window.clear()
                    self._bell.wait()
            except Unavailable:
                self._bell.wait(TRY_AGAIN_SECONDS)
            except StoreClosed:
                return
            except Exception:  # noqa: BLE001  (each subscription reads by itself, and tells its caller what is wrong)
                self._drop_all()
                self._bell.wait(TRY_AGAIN_SECONDS)

    def _do_requests(self) -> None:
        while self._leaving:
            self._interests.remove(self._leaving.popleft())
        if not self._arriving:
            return
        if not self._interests:
            self._position = self._engine.head()
        arrived: list[Inbox] = []
        while self._arriving:
            inbox = self._arriving.popleft()
            if inbox.since is None and inbox in self._inboxes:
                self._interests.add(inbox, inbox.query)
                inbox.since = self._position
                arrived.append(inbox)
        self._ring(arrived)

    def _follow(self) -> None:
        """Wait for news, and hand them out."""
        if self._is_quiet and not self._watch.wait(self._position, self._has_other_work, bell=self._bell):
            if self._engine.is_lost:
                self._drop_all()
            return
        has_found = self._read_news()
        if has_found or self._is_quiet:  # quiet: nothing of what was announced is there yet, or asked for
            time.sleep(PAUSE_SECONDS)
        self._is_quiet = not has_found

    def _read_news(self) -> bool:
        """Hand out what is new; False if there is nothing."""
        has_found = False
        query = self._query()
        span: Span | None = Span(self._position)
        while span is not None and not self._is_closed:
            page = self._engine.read_page(query, span, PAGE_EVENTS)
            self._hand_out(page)
            span = page.rest
            has_found = has_found or bool(page.events)
        return has_found

    def _query(self) -> Query:
        """What to read: everything, or what the inboxes want where reading more would be dear."""
        if not self._engine.is_far:
            return Query.all()
        return Query(item for inbox in self._interests.askers() for item in inbox.query.items)

    def _has_other_work(self) -> bool:
        return self._is_closed or bool(self._arriving) or bool(self._leaving)

    def _hand_out(self, page: Page) -> None:
        inboxes: dict[Inbox, None] = {}
        for event, askers in self._interests.matches(page.events):
            self._window.add(event)
            for inbox in askers:
                inbox.positions.append(event.position)
                inboxes[inbox] = None
        self._position = page.head if page.rest is None else page.rest.after
        self._drop([inbox for inbox in inboxes if len(inbox.positions) > WINDOW_EVENTS])
        self._ring(inboxes)

    def _drop(self, inboxes: list[Inbox]) -> None:
        """Tell no more to these inboxes: their subscriptions read the log themselves."""
        for inbox in inboxes:
            self._interests.remove(inbox)
            if inbox.since is None:  # it was never told of anything
                inbox.until = inbox.since = 0
            else:
                inbox.until = self._position
            self._inboxes.pop(inbox, None)
        self._ring(inboxes)

    def _drop_all(self) -> None:
        self._drop([*self._interests.askers(), *self._arriving])
        self._arriving.clear()

    def _ring(self, inboxes: Iterable[Inbox]) -> None:
        ring_all([bell for inbox in inboxes if (bell := inbox.bell) is not None])


def _size_of(event: SequencedEvent) -> int:
    return len(event.data) + len(event.raw_metadata or b"") + len(event.raw_tags)
