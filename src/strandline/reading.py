"""Reading in pages: what a read gives, and what may be asked of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from types import ModuleType
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from .append import AppendCondition, RecordedAppend, check_position
from .engine import Engine, Page, Span
from .engine.deadline import Deadline
from .engine.lists import LIST_BYTES, bytes_of, in_lists
from .errors import InvalidInput, InvalidQuery, MissingDependency, NotFound
from .event import SequencedEvent
from .lines import encode_lines
from .names import check_flag
from .query import Query

if TYPE_CHECKING:
    from pyarrow import RecordBatch

FIRST_PAGE = 500
NEXT_PAGES = 2_000
ALL_IN_ONE_PAGE = 2**31 - 1
MOST_CONFLICTS = 10_000


class Readable(Protocol):
    """What a read needs of a store."""

    def read_page(self, query: Query, span: Span, size: int) -> Page:
        """A page of a read; raises if the store was closed meanwhile."""
        ...

    def deadline(self) -> Deadline:
        """The end of the time in which a read that begins to search now must find events."""
        ...


class Read:
    """The events of a read, in pages: iterate over it, as often as you like."""

    def __init__(self, store: Readable, query: Query, limit: int | None, first: Page) -> None:
        self._store = store
        self._limit = limit
        self._first = first
        self.query = query

    @property
    def head(self) -> int:
        """The head of the log when the read began (at most `until`): the `after` to append with."""
        return self._first.head

    @property
    def condition(self) -> AppendCondition:
        """The condition that nothing matching was written since this read."""
        return AppendCondition(self.query, after=self.head)

    def __iter__(self) -> Iterator[SequencedEvent]:
        return chain.from_iterable(self._pages())  # less per event than a generator

    def _pages(self) -> Iterator[list[SequencedEvent]]:
        page, left = self._first, self._limit
        deadline = self._store.deadline()
        while True:
            yield page.events
            request = next_page(page, left)
            if request is None:
                return
            span, size, left = request
            deadline = next_deadline(page, deadline, self._store)
            page = self._store.read_page(self.query, span, size)

    def pages(self) -> Iterator[list[SequencedEvent]]:
        """The events in lists, none of them empty: at most 2,000 events with 8 MiB of data, or one larger event."""
        for events in self._pages():
            yield from in_lists(events)

    def arrow(self) -> Iterator[RecordBatch]:
        """The events as Arrow record batches with the columns position, id, type, tags, stream, subject, data, metadata
        and recorded_at; one empty batch if there are none.
        """
        return _batches(require_arrow(), self.pages())

    def ndjson(self) -> Iterator[bytes]:
        """The events as lines of JSON, newline included."""
        for events in self.pages():
            yield from encode_lines(events).splitlines(keepends=True)


def next_deadline(page: Page, deadline: Deadline, store: Readable) -> Deadline:
    """The deadline for the next page. It begins anew behind events; raises if there were none for too long."""
    if page.events:
        return store.deadline()
    deadline.check()
    return deadline


def query_or_all(query: Query | None) -> Query:
    """The query to ask; None asks for every event."""
    return Query.all() if query is None else check_query(query)


def check_query(query: Query) -> Query:
    """The query, if it is one."""
    if not isinstance(query, Query):
        raise InvalidQuery(
            f"a query is a Query, not {type(query).__name__}", hint="write Query.of(…) or Query.tag(…)"
        )
    return query


def check_span(after: int, until: int | None, *, backwards: bool) -> Span:
    """The positions to read."""
    check_flag(backwards, "backwards")
    start = check_position(after, "after")
    return Span(start, None if until is None else check_position(until, "until"), backwards)


def check_limit(limit: int | None) -> int | None:
    """How many events to read at most."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise InvalidInput(
            f"limit is a whole number from 1, not {limit!r:.40}", hint="leave it out to read all"
        )
    return limit


def check_most(conflicts: object) -> int:
    """How many conflicts a dry run lists at most."""
    if isinstance(conflicts, bool) or not isinstance(conflicts, int) or not 0 <= conflicts <= MOST_CONFLICTS:
        raise InvalidInput(
            f"conflicts is a whole number from 0 to {MOST_CONFLICTS:,}, not {conflicts!r:.40}",
            hint="to see more events, read those that match the condition's query after its position",
        )
    return conflicts


def event_of(engine: Engine, which: int | UUID) -> SequencedEvent:
    """The event at a position or with an id, with its present tags."""
    if isinstance(which, UUID):
        positions = [event.position for event in engine.events_with_ids([which.bytes])]
        name = f"with the id {which}"
    else:
        positions = [check_position(which, "which")]
        name = f"at position {which}"
    for event in engine.events_at(positions):
        return event
    raise NotFound(f"there is no event {name}", hint="positions are 1 to store.head(); ids are UUIDs")


def next_appends(span: Span, page: Sequence[RecordedAppend]) -> Span:
    """Where the page of recorded appends after this one begins."""
    last = page[-1].first
    return Span(span.after, last - 1, True) if span.backwards else Span(last, span.until)


def require_arrow() -> ModuleType:
    """The module that makes columns, or an error that says what to install."""
    try:
        from . import arrow
    except ImportError as error:
        if (error.name or "").startswith("strandline"):
            raise
        raise MissingDependency(
            f"Arrow batches need pyarrow, which cannot be loaded: {error}",
            hint="pip install 'strandline[arrow]'",
        ) from error
    return arrow


def _batches(arrow: ModuleType, pages: Iterator[list[SequencedEvent]]) -> Iterator[RecordBatch]:
    for events in chain((next(pages, []),), pages):
        yield arrow.batch_of_events(events)


def first_size(limit: int | None) -> int:
    """How many events the first page of a read has."""
    return FIRST_PAGE if limit is None else min(check_limit(limit) or FIRST_PAGE, FIRST_PAGE)


def next_page(page: Page, left: int | None) -> tuple[Span, int, int | None] | None:
    """What to ask for after `page`: the span, the size, and how many events are left to read then."""
    if left is not None:
        left -= len(page.events)
    if page.rest is None or left == 0:
        return None
    size = next_size(page)
    return page.rest, size if left is None else min(left, size), left


def next_size(page: Page) -> int:
    """How many events the page after this one has at most: of large events fewer."""
    if not page.events:
        return NEXT_PAGES
    return min(NEXT_PAGES, 1 + LIST_BYTES * len(page.events) // (1 + bytes_of(page.events)))
