"""The appends whose condition may not have held, found in few passes over the log.

Judging conditions one by one costs each of them every event that it has to look at. On a hot tag that grows with the
square of the log. Here the items of many conditions are followed along the log together, and each is looked up once
however many conditions ask for it. A suspect is then judged alone, by `audit.violation`.

An item is followed by the last position that spoke against it: of an event that matched with the tags that it was
appended with, or of a retag of an event that matched with its old tags or its new ones. If no such position is newer
than `after`, then no event matched that was newer, and no retag counts. A part after 0 may stem from
`unless_exists`, which asks only for events that match at that time. They are counted.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from ..append import RecordedAppend
from ..event import SequencedEvent
from ..names import RETAGGED, index_tags
from ..query import Query, QueryItem
from . import Span
from .audit import History, Reader, events

MAX_ITEMS = 100_000  # that are followed at once: about 100 MB
MAX_QUESTIONS = 2_000_000
GAP = 20  # to read so few events that no item needs costs less than to look up where the next begin
NO_TAG = ""
ANY_TYPE = ""

Passed = Callable[[int], object]
"""Is told the position up to which conditions are judged."""


def suspects(
    reader: Reader, history: History, appends: Iterable[RecordedAppend], passed: Passed
) -> Iterator[int]:
    """The first positions of appends whose condition may not have held, in order. `appends` are in order too."""
    batch = Batch(reader, history, passed)
    for append in appends:
        batch.ask(append)
        if batch.is_full:
            yield from batch.suspects()
            batch = Batch(reader, history, passed)
    yield from batch.suspects()


class Followed:
    """An item on its way along the log, from the lowest `after` to the last append that asks for it."""

    __slots__ = ("anchor", "count", "end", "is_simple", "item", "last", "number", "start")

    def __init__(self, item: QueryItem, number: int, start: int) -> None:
        self.item = item
        self.number = number
        self.start = start
        self.end = 0
        self.last = 0
        self.count = 0
        self.anchor = NO_TAG
        self.is_simple = bool(item.types) and len(item.index_tags()) <= 1 and item.where is None

    def is_against(self, after: int) -> bool:
        """Whether a part that has this item and this `after` may not hold where the pass is."""
        return self.last > after if after else self.count > 0


class Batch:
    """Some appends, and the items that their conditions ask for."""

    def __init__(self, reader: Reader, history: History, passed: Passed) -> None:
        self._reader = reader
        self._history = history
        self._passed = passed
        self._items: dict[QueryItem, Followed] = {}
        self._questions = array("q")  # first, after and the number of the item, one question after another
        self._suspects: set[int] = set()

    @property
    def is_full(self) -> bool:
        """Whether the next append belongs into another batch."""
        return len(self._items) >= MAX_ITEMS or len(self._questions) >= 3 * MAX_QUESTIONS

    def ask(self, append: RecordedAppend) -> None:
        """Take the questions of an append: each is an item, and the range in which no event may match it."""
        for part in () if append.condition is None else append.condition.parts:
            if part.after < append.first - 1:
                for item in part.fail_if_events_match.items:
                    self._ask(append.first, part.after, item)

    def _ask(self, first: int, after: int, item: QueryItem) -> None:
        if item.key is not None and not item.tags and not after:
            # An idempotency key: few events have it, no retag takes it away, and no other append asks for it.
            if self._is_there(item, first - 1):
                self._suspects.add(first)
            return
        followed = self._items.get(item)
        if followed is None:
            followed = self._items[item] = Followed(item, len(self._items), after)
        followed.start = min(followed.start, after)
        followed.end = first
        self._questions.extend((first, after, followed.number))

    def _is_there(self, item: QueryItem, head: int) -> bool:
        found = events(self._reader, Query.of(item), Span(0, head))
        return any(item.matches(event, self._history.tags(event, head)) for event in found)

    def suspects(self) -> list[int]:
        """Follow the items along the log; the first positions of the suspects, in order."""
        items = list(self._items.values())
        _choose_anchors(items)
        active = Active(self._history, items)
        passed = self._events(items)
        event = next(passed, None)
        numbers = iter(self._questions)
        for first, after, number in zip(numbers, numbers, numbers, strict=True):
            while event is not None and event.position < first:
                active.see(event)
                event = next(passed, None)
            if items[number].is_against(after):
                self._suspects.add(first)
        return sorted(self._suspects)

    def _events(self, items: list[Followed]) -> Iterator[SequencedEvent]:
        """The events that an item needs, in order."""
        for after, until in _joined(sorted((item.start, item.end - 1) for item in items)):
            for event in events(self._reader, Query.all(), Span(after, until)):
                yield event
                if event.position % 1_000 == 0:
                    self._passed(event.position)


class Active:
    """The items that are followed where the pass is, by tag and type."""

    def __init__(self, history: History, items: list[Followed]) -> None:
        self._history = history
        self._opening = sorted(items, key=lambda followed: followed.start, reverse=True)
        self._closing = sorted(items, key=lambda followed: followed.end, reverse=True)
        self._by_tag: dict[str, dict[str, dict[int, Followed]]] = {}

    def see(self, event: SequencedEvent) -> None:
        """Take the next event."""
        position = event.position
        self._open_and_close(position)
        tags = self._history.tags(event, position)
        for followed in self._candidates(event, tags):
            if followed.is_simple or followed.item.matches(event, tags):
                followed.last = position
                followed.count += 1
        if event.type == RETAGGED:
            for changed in self._history.changed_by(position):
                self._see_retagged(changed, position)

    def _see_retagged(self, event: SequencedEvent, retag: int) -> None:
        old, new = (self._history.tags(event, head) for head in (retag - 1, retag))
        for followed in self._candidates(event, tuple({*old, *new})):
            matched, matches = followed.item.matches(event, old), followed.item.matches(event, new)
            if matched or matches:
                followed.last = retag
                followed.count += matches - matched

    def _candidates(self, event: SequencedEvent, tags: tuple[str, ...]) -> Iterator[Followed]:
        """The items that may match an event with these tags, which are followed under one of them and its type."""
        for tag in (NO_TAG, *index_tags(tags, event.stream, event.subject, event.key)):
            by_type = self._by_tag.get(tag)
            if by_type:
                yield from by_type.get(event.type, {}).values()
                yield from by_type.get(ANY_TYPE, {}).values()

    def _open_and_close(self, position: int) -> None:
        while self._closing and self._closing[-1].end <= position:
            closed = self._closing.pop()
            for type_ in closed.item.types or (ANY_TYPE,):
                self._by_tag.get(closed.anchor, {}).get(type_, {}).pop(closed.number, None)
        while self._opening and self._opening[-1].start < position:
            opened = self._opening.pop()
            if opened.end > position:
                by_type = self._by_tag.setdefault(opened.anchor, {})
                for type_ in opened.item.types or (ANY_TYPE,):
                    by_type.setdefault(type_, {})[opened.number] = opened


def _choose_anchors(items: Iterable[Followed]) -> None:
    """Follow each item under that of its tags that the fewest items ask for."""
    count = Counter(tag for followed in items for tag in followed.item.index_tags())
    for followed in items:
        tags = followed.item.index_tags()
        followed.anchor = min(tags, key=lambda tag: (count[tag], tag)) if tags else NO_TAG


def _joined(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The ranges, which are sorted, as few that do not overlap."""
    start, end = 0, 0
    for after, until in ranges:
        if after > end + GAP:
            yield start, end
            start = after
        end = max(end, until)
    if end:
        yield start, end
