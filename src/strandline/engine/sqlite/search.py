"""Finding events by query: every item is a few ranges of one index.

The older part of the index is in the file, the newer part in memory (`recent.py`). An item is looked
up by its rarest tag, one range per type, and each hit is checked for the other tags. What the index
cannot decide (`where`) is decided by the item itself, on the events found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from ...event import SequencedEvent
from ...names import RETAGGED
from ...query import Query, QueryItem
from .. import Page, Span
from ..deadline import Deadline
from .connection import Connection
from .names import EVERY_EVENT, Find, Names
from .recent import TYPE_BITS, Recent, Segment
from .statements import sql

T = TypeVar("T")
CANDIDATES = 500
MAX_TYPE_LISTS = 1_000
NO_DEADLINE = Deadline(None)

_MARKS = sql("marks")
_AT = sql("events_at")
_TYPES_OF_TAG = sql("types_of_tag")
_COUNT = sql("seek_count")
_FIRST = sql("seek_first")
_SEEKS_FEW = sql("seeks_few")
_EVENTS, _SEEKS, _SEEKS_ALL, _SCAN = (
    (sql(f"{name}_forward"), sql(f"{name}_backward"))
    for name in ("events", "seeks", "seeks_all_tags", "scan")
)


class Range(msgspec.Struct, frozen=True):
    """The positions `(after, until]`, and the direction to go."""

    after: int
    until: int
    backwards: bool = False

    def beyond(self, last: int) -> Range:
        """What is left of the range after `last`."""
        return Range(self.after, last - 1, True) if self.backwards else Range(last, self.until)


class Wanted(msgspec.Struct, frozen=True, gc=False):
    """A query item in numbers. `types` is None if any will do; an item without tags has the one of every event."""

    item: QueryItem
    tags: list[int]
    types: list[int] | None
    excluded: list[int]

    @property
    def is_scan(self) -> bool:
        """Whether the index cannot help: any event may match."""
        return self.types is None and self.tags == [EVERY_EVENT]

    @property
    def is_simple(self) -> bool:
        """Whether ranges of the index under one tag are just the item's events, `where` aside."""
        return len(self.tags) == 1 and (self.types is not None or self.tags[0] != EVERY_EVENT)

    def recent_types(self, segment: Segment) -> list[int]:
        """The types to look for in a segment."""
        if self.types is not None:
            return self.types
        return [type_ for type_ in segment.types(self.tags[0]) if type_ not in self.excluded]


class Search:
    """Looks things up through one connection, in the state of the log that `look` saw."""

    def __init__(
        self,
        connection: Connection,
        names: Names,
        recent: Recent,
        find: Find | None = None,
        before_reading_events: Callable[[], None] | None = None,
        deadline: Deadline = NO_DEADLINE,
    ) -> None:
        self.connection = connection
        self._deadline = deadline
        self._execute, self._execute_slow = connection.rows, connection.slow_rows
        self._before_reading_events = before_reading_events or _nothing
        self._names = names
        self._known = names.ids
        self._recent = recent
        self._find: Find = find or self._find_committed
        self.type_numbers: dict[tuple[str, ...], list[int]] = {}
        self.head = 0
        self.recorded_at = 0
        self.indexed_to = 0
        self.segments: tuple[Segment, ...] = ()

    def look(self) -> None:
        """See the present state of the log; call it in a transaction, before anything else."""
        rows = self._execute(_MARKS, ())
        self.head, self.recorded_at, self.indexed_to = rows[0] if rows else (0, 0, 0)
        self.segments = self._recent.covering(self.connection, self.indexed_to, self.head)

    def in_snapshot(self, question: Callable[[Search], T]) -> T:
        """The answer to a question about the present state of the log."""
        connection = self.connection
        try:
            connection.roll_back()  # an interrupt may have left one open
            connection.rows("begin")
            self.look()
            return question(self)
        finally:
            if connection._database.in_transaction:
                connection.undo()

    def forget_numbers(self) -> None:
        """Names that a transaction gave numbers to may have others now."""
        self.type_numbers.clear()

    def _find_committed(self, text: str) -> int | None:
        return self._names.find(self.connection, text)

    def read_page(self, query: Query, span: Span, size: int) -> Page:
        """See `Engine.read_page`."""
        head = self.head if span.until is None else min(self.head, span.until)
        candidates = self.candidates(query, Range(span.after, head, span.backwards), size)
        rest = None if len(candidates) < size else span.rest(head, candidates[-1].position)
        return Page(self._filtered(query, candidates), head, rest)

    def candidates(self, query: Query, within: Range, size: int) -> list[SequencedEvent]:
        """The first events of the range that match, `where` aside."""
        if query.is_all:
            return self._events(_EVENTS[within.backwards], (within.after, within.until, size))
        find = self.connection.find
        if find is not None and not (within.backwards or query.has_where):
            self._before_reading_events()
            found = find(
                query.items, self._known, self._find, self.type_numbers, self.segments, self.indexed_to,
                within.after, within.until, size,
            )  # fmt: skip
            if found is not None:
                return found
        return self.events_at(self.positions(query, within, size))

    def events_at(self, positions: Sequence[int]) -> list[SequencedEvent]:
        """The events at these positions, in that order."""
        return self._events(_AT, (list(positions),)) if positions else []

    def _events(self, statement: str, parameters: Sequence[Any]) -> list[SequencedEvent]:
        self._before_reading_events()
        return self.connection.events(statement, parameters)

    def first(self, query: Query, after: int) -> int | None:
        """The first position after `after` whose event matches."""
        first: int | None = None
        seeks: list[int] = []
        for item in query.items:
            wanted = self._wanted(item)
            if wanted is None:
                continue
            if wanted.is_simple and item.where is None:
                found = self._first_recent(wanted, after)
                if after < self.indexed_to:
                    seeks += self._seeks(wanted, wanted.tags[0])
            else:
                found = self._first_candidate(wanted, after)
            if found is not None:
                first = _earlier(first, found)
        if seeks:
            first = _earlier(first, self._execute(_FIRST, (seeks, after, self.indexed_to))[0][0])
        return first

    def count(self, query: Query, after: int = 0) -> int:
        """How many events after a position match."""
        if query.is_all:
            return max(0, self.head - after)
        if query.has_where:
            return sum(1 for _ in self.matching(query, after))
        return sum(map(len, self._matching_positions(query, after)))

    def matching(self, query: Query, after: int = 0) -> Iterator[SequencedEvent]:
        """Every event after a position that matches."""
        for page in self._matching_positions(query, after):
            yield from self._filtered(query, self.events_at(page))

    def _matching_positions(self, query: Query, after: int) -> Iterator[list[int]]:
        """The positions of the events that match, `where` aside, in pages."""
        return self._pages(
            lambda within: self.positions(query, within, CANDIDATES * 20), Range(after, self.head)
        )

    def last_of_type(self, type_: int) -> int | None:
        """The last position of a type."""
        within = Range(0, self.head, backwards=True)
        found = self._item_positions(Wanted(QueryItem(), [EVERY_EVENT], [type_], []), within, 1)
        return found[0] if found else None

    def name_of(self, number: int) -> str:
        """The name that has a number."""
        return self._names.text(self.connection, number)

    def types(self) -> set[int]:
        """The types of the log."""
        recent = (type_ for segment in self.segments for type_ in segment.types(EVERY_EVENT))
        return {*self._types_in_file(EVERY_EVENT), *recent}

    def recent_tags(self) -> set[int]:
        """The tags of events that the file's index does not have yet."""
        return {tag for segment in self.segments for tag in segment.tags(self.indexed_to, self.head)}

    def _wanted(self, item: QueryItem) -> Wanted | None:
        """The item in numbers; None if it has a name that the log does not know, so no event matches."""
        known, tags = self._known, []
        for name in item.index_tags():
            tag = known.get(name) or self._find(name)
            if tag is None:
                return None
            tags.append(tag)
        types = self._numbers(item.types) if item.types else None
        if types == []:
            return None
        excluded = self._numbers(item.exclude_types) if item.exclude_types else []
        return Wanted(item, tags or [EVERY_EVENT], types, excluded)

    def _numbers(self, types: tuple[str, ...]) -> list[int]:
        """The numbers of those types that the log knows; kept once it knows all, they do not change then."""
        known = self.type_numbers.get(types)
        if known is None:
            known = [number for number in map(self._find, types) if number is not None]
            if len(known) == len(types) and len(self.type_numbers) < MAX_TYPE_LISTS:
                self.type_numbers[types] = known
        return known

    def _first_recent(self, wanted: Wanted, after: int) -> int | None:
        tag, types, after = wanted.tags[0], wanted.types, max(after, self.indexed_to)
        for segment in self.segments:
            if segment.head > after:
                found = segment.first(tag, types or wanted.recent_types(segment), after, self.head)
                if found is not None:
                    return found
        return None

    def _first_candidate(self, wanted: Wanted, after: int) -> int | None:
        item, within = wanted.item, Range(after, self.head)
        if item.where is None:
            found = self._item_positions(wanted, within, 1)
            return found[0] if found else None
        for page in self._pages(lambda rest: self._item_positions(wanted, rest, CANDIDATES), within):
            for event in self._deadline.each(self.events_at(page)):
                if item.matches(event):
                    return event.position
        return None

    def _pages(self, find: Callable[[Range], list[int]], within: Range | None = None) -> Iterator[list[int]]:
        rest = within or Range(0, self.head)
        while page := find(rest):
            yield page
            self._deadline.check()
            rest = rest.beyond(page[-1])

    def _filtered(self, query: Query, events: list[SequencedEvent]) -> list[SequencedEvent]:
        if not query.has_where:
            return events
        return [event for event in self._deadline.each(events) if query.matches(event)]

    def positions(self, query: Query, within: Range, size: int) -> list[int]:
        """The first positions of the range that match, `where` aside."""
        found: set[int] = set()
        seeks: list[int] = []
        for wanted in map(self._wanted, query.items):
            if wanted is None:
                continue
            if wanted.is_simple:
                if within.after < self.indexed_to:
                    seeks += self._seeks(wanted, wanted.tags[0])
                found.update(self._newer_positions(wanted, within, size))
            else:
                found.update(self._item_positions(wanted, within, size))
        if seeks:
            found.update(self._seek(seeks, within, size))
        return sorted(found, reverse=within.backwards)[:size]

    def _item_positions(self, wanted: Wanted, within: Range, size: int) -> list[int]:
        if wanted.is_scan:
            return self._scan(wanted.item, within, size)
        parts = (self._older_positions, self._newer_positions)
        found: list[int] = []
        for part in reversed(parts) if within.backwards else parts:
            if len(found) < size:
                found += part(wanted, within, size - len(found))
        return found

    def _older_positions(self, wanted: Wanted, within: Range, size: int) -> list[int]:
        """Those that the file's index has."""
        until = min(within.until, self.indexed_to)
        if within.after >= until:
            return []
        if len(wanted.tags) == 1:
            return self._seek(self._seeks(wanted, wanted.tags[0]), within, size)
        tag = self._rarest(wanted, within.after, until)
        seeks = self._seeks(wanted, tag)
        if not seeks:
            return []
        others = [other for other in wanted.tags if other != tag]
        parameters = (seeks, within.after, until, size, others)
        return _joined(self._execute_slow(_SEEKS_ALL[within.backwards], parameters), within, size)

    def _seek(self, seeks: list[int], within: Range, size: int) -> list[int]:
        """The first positions of the range that the file's index has under any of the seeks."""
        until = min(within.until, self.indexed_to)
        if not seeks or within.after >= until:
            return []
        rows = self._execute(_SEEKS_FEW, (seeks, within.after, until, size + 1))
        if len(rows) <= size:
            return sorted((position for (position,) in rows), reverse=within.backwards)
        parameters = (seeks, within.after, until, size)
        return _joined(self._execute_slow(_SEEKS[within.backwards], parameters), within, size)

    def _newer_positions(self, wanted: Wanted, within: Range, size: int) -> list[int]:
        """Those that are in memory."""
        after = max(within.after, self.indexed_to)
        found: list[int] = []
        for segment in self.segments if after < within.until else ():
            found += segment.positions(wanted.tags, wanted.recent_types(segment), after, within.until)
        return found[: -size - 1 : -1] if within.backwards else found[:size]

    def _scan(self, item: QueryItem, within: Range, size: int) -> list[int]:
        if item.is_all:
            positions = range(within.after + 1, within.until + 1)
            return list(reversed(positions[-size:]) if within.backwards else positions[:size])
        self._before_reading_events()
        excluded = msgspec.json.encode([*item.exclude_types, RETAGGED]).decode()
        rows = self._execute_slow(_SCAN[within.backwards], (within.after, within.until, excluded, size))
        return [position for (position,) in rows]

    def _seeks(self, wanted: Wanted, tag: int) -> list[int]:
        """The ranges of the file's index under a tag, as numbers: tag and type in one."""
        types = wanted.types
        if types is None:
            types = [type_ for type_ in self._types_in_file(tag) if type_ not in wanted.excluded]
        return [tag << TYPE_BITS | type_ for type_ in types]

    def _types_in_file(self, tag: int) -> list[int]:
        return [type_ for (type_,) in self._execute(_TYPES_OF_TAG, (tag,))]

    def _rarest(self, wanted: Wanted, after: int, until: int) -> int:
        """The tag with the fewest entries, at a cost that depends on those few only."""
        seeks = {tag: self._seeks(wanted, tag) for tag in wanted.tags}
        limit = 16
        while True:
            counts = {tag: self._count(seeks[tag], after, until, limit) for tag in wanted.tags}
            rarest = min(wanted.tags, key=counts.__getitem__)
            if counts[rarest] < limit or until - after <= limit:
                return rarest
            limit *= 16

    def _count(self, seeks: list[int], after: int, until: int, limit: int) -> int:
        return sum(self._execute_slow(_COUNT, (seek, after, until, limit))[0][0] for seek in seeks)


def _nothing() -> None:
    pass


def _joined(rows: list[Any], within: Range, size: int) -> list[int]:
    """The first positions of rows that hold them joined by commas."""
    found = {position for (text,) in rows if text for position in map(int, text.split(","))}
    return sorted(found, reverse=within.backwards)[:size]


def _earlier(left: int | None, right: int | None) -> int | None:
    if left is None or right is None:
        return right if left is None else left
    return min(left, right)
