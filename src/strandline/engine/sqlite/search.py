"""Finding events by query: every item is a few ranges of one index.

An item is looked up by its rarest tag, one range per type, and each hit is checked for the other
tags. What the index cannot decide (`where`) is decided by the item itself, on the events found.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import starmap
from typing import Any

import apsw
import msgspec

from ...event import SequencedEvent
from ...names import RETAGGED
from ...query import Query, QueryItem
from .. import Page, Span
from .connection import Connection
from .names import EVERY_EVENT, Find, Names
from .statements import sql

CANDIDATES = 500

_HEAD = sql("head")
_AT = sql("events_at")
_TYPES_OF_TAG = sql("types_of_tag")
_COUNT = sql("seek_count")
_FIRST = sql("seek_first")
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


class Search:
    """Looks things up through one connection."""

    def __init__(self, connection: Connection, names: Names, find: Find | None = None) -> None:
        self.connection = connection
        self._execute = connection.execute
        self._names = names
        self._find: Find = find or self._find_committed

    def _find_committed(self, text: str) -> int | None:
        return self._names.find(self.connection, text)

    def head(self) -> tuple[int, int]:
        """The head and its time; (0, 0) in an empty log."""
        rows = self._execute(_HEAD, ())
        return rows[0] if rows else (0, 0)

    def page(self, query: Query, span: Span, size: int) -> Page:
        """See `Engine.read_page`; call inside a snapshot."""
        head, _ = self.head()
        if span.until is not None:
            head = min(head, span.until)
        within = Range(span.after, head, span.backwards)
        candidates = self.candidates(query, within, size)
        if len(candidates) < size:
            rest = None
        else:
            rest = Span(span.after, head, span.backwards).rest(candidates[-1].position)
        return Page(_filtered(query, candidates), head, rest)

    def candidates(self, query: Query, within: Range, size: int) -> list[SequencedEvent]:
        """The first events of the range that match, `where` aside."""
        if query.is_all:
            rows = self._execute(_EVENTS[within.backwards], (within.after, within.until, size))
            return events_of(rows)
        return self.events_at(self.positions(query, within, size), backwards=within.backwards)

    def events_at(self, positions: Sequence[int], *, backwards: bool = False) -> list[SequencedEvent]:
        """The events at these positions, in order."""
        if not positions:
            return []
        rows = self._execute(_AT, (apsw.carray(array("q", positions)),))
        if backwards:
            rows.reverse()
        return events_of(rows)

    def first(self, items: Iterable[QueryItem], after: int, until: int) -> int | None:
        """The first position in the range whose event matches one of the items."""
        if after >= until:
            return None
        found: list[int | None] = []
        seeks: list[list[int]] = []
        for item in items:
            simple = self._seeks(item)
            if simple is None:
                found.append(self._first_of_item(item, after, until))
            else:
                seeks += simple
        if seeks:
            found.append(self._execute(_FIRST, (str(seeks), after, until))[0][0])
        return min((position for position in found if position is not None), default=None)

    def _seeks(self, item: QueryItem) -> list[list[int]] | None:
        """The ranges of the index that are just the item's events, if it is that simple."""
        tags = item.index_tags()
        if len(tags) > 1 or item.where is not None or not (tags or item.types):
            return None
        tag = self._find(tags[0]) if tags else EVERY_EVENT
        return [] if tag is None else [[tag, type_] for type_ in self._types(item, tag)]

    def count(self, query: Query, head: int) -> int:
        """How many events match."""
        if query.is_all:
            return head
        needs_events = any(item.where is not None for item in query.items)
        pages = self._pages(lambda within: self.positions(query, within, CANDIDATES * 20), Range(0, head))
        if not needs_events:
            return sum(map(len, pages))
        return sum(len(_filtered(query, self.events_at(page))) for page in pages)

    def all_matching(self, query: Query, head: int) -> list[SequencedEvent]:
        """Every event that matches."""
        pages = self._pages(lambda within: self.positions(query, within, CANDIDATES * 20), Range(0, head))
        return [event for page in pages for event in _filtered(query, self.events_at(page))]

    def types(self) -> list[int]:
        """The types of the log."""
        return [type_ for (type_,) in self._execute(_TYPES_OF_TAG, (EVERY_EVENT,))]

    def _first_of_item(self, item: QueryItem, after: int, until: int) -> int | None:
        if item.is_all:
            return after + 1
        if item.where is None:
            found = self._item_positions(item, Range(after, until), 1)
            return found[0] if found else None
        pages = self._pages(
            lambda within: self._item_positions(item, within, CANDIDATES), Range(after, until)
        )
        for page in pages:
            for event in self.events_at(page):
                if item.matches(event):
                    return event.position
        return None

    @staticmethod
    def _pages(find: Callable[[Range], list[int]], within: Range) -> Iterator[list[int]]:
        while page := find(within):
            yield page
            within = within.beyond(page[-1])

    def positions(self, query: Query, within: Range, size: int) -> list[int]:
        """The first positions of the range that match, `where` aside."""
        if len(query.items) == 1:
            return self._item_positions(query.items[0], within, size)
        found: set[int] = set()
        for item in query.items:
            found.update(self._item_positions(item, within, size))
        return sorted(found, reverse=within.backwards)[:size]

    def _item_positions(self, item: QueryItem, within: Range, size: int) -> list[int]:
        tags = self._numbers(item.index_tags())
        if tags is None or within.after >= within.until:
            return []
        if not tags and not item.types:
            return self._scan(item, within, size)
        tag = self._lead(item, tags, within)
        seeks = [[tag, type_] for type_ in self._types(item, tag)]
        parameters = (str(seeks), within.after, within.until, size)
        if len(tags) > 1:
            others = [other for other in tags if other != tag]
            rows = self._execute(_SEEKS_ALL[within.backwards], (*parameters, str(others)))
        else:
            rows = self._execute(_SEEKS[within.backwards], parameters)
        found = [position for (text,) in rows if text for position in map(int, text.split(","))]
        if len(rows) > 1:
            found.sort(reverse=within.backwards)
        return found[:size]

    def _lead(self, item: QueryItem, tags: list[int], within: Range) -> int:
        """The tag to look up by."""
        if len(tags) > 1:
            return self._rarest(item, tags, within)
        return tags[0] if tags else EVERY_EVENT

    def _scan(self, item: QueryItem, within: Range, size: int) -> list[int]:
        excluded = msgspec.json.encode([*item.exclude_types, RETAGGED]).decode()
        rows = self._execute(_SCAN[within.backwards], (within.after, within.until, excluded, size))
        return [position for (position,) in rows]

    def _numbers(self, texts: Sequence[str]) -> list[int] | None:
        """The numbers of all these names; None if one is unknown, then no event has it."""
        numbers = []
        for text in texts:
            number = self._find(text)
            if number is None:
                return None
            numbers.append(number)
        return numbers

    def _types(self, item: QueryItem, tag: int) -> list[int]:
        """The types to look under: those asked for, or all that the tag has."""
        if item.types:
            return [number for number in map(self._find, item.types) if number is not None]
        present = [type_ for (type_,) in self._execute(_TYPES_OF_TAG, (tag,))]
        if item.exclude_types:
            excluded = set(map(self._find, item.exclude_types))
            present = [type_ for type_ in present if type_ not in excluded]
        return present

    def _rarest(self, item: QueryItem, tags: list[int], within: Range) -> int:
        """The tag with the fewest entries, at a cost that depends on those few only."""
        types = {tag: self._types(item, tag) for tag in tags}
        limit = 16
        while True:
            counts = {tag: self._count(tag, types[tag], within, limit) for tag in tags}
            rarest = min(tags, key=counts.__getitem__)
            if counts[rarest] < limit or within.until - within.after <= limit:
                return rarest
            limit *= 16

    def _count(self, tag: int, types: list[int], within: Range, limit: int) -> int:
        total = 0
        for type_ in types:
            total += self._execute(_COUNT, (tag, type_, within.after, within.until, limit))[0][0]
        return total


def events_of(rows: list[Any]) -> list[SequencedEvent]:
    """The events of rows with all columns, which are an event's fields in order."""
    return list(starmap(SequencedEvent, rows))


def _filtered(query: Query, events: list[SequencedEvent]) -> list[SequencedEvent]:
    if all(item.where is None for item in query.items):
        return events
    return [event for event in events if query.matches(event)]
