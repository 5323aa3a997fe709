"""The oracle: judges every append of a log again, by brute force and with nothing but the log.

It uses no index of any engine: it reads all events and all recorded appends, undoes the retags to
know which tags an event carried at which position, and asks of each condition that was accepted
whether it should have been.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from ..append import AppendCondition, RecordedAppend
from ..event import SequencedEvent
from ..names import RETAGGED
from ..query import Query


class Violation(NamedTuple):
    """Something that no correct store would have let happen."""

    kind: str
    position: int
    message: str


class Readable(Protocol):
    """What the oracle needs of a store."""

    def read(self) -> Iterable[SequencedEvent]: ...
    def appends(self) -> Iterable[RecordedAppend]: ...


class Change(NamedTuple):
    """A retag of one event: its tags before and after position `since`."""

    since: int
    position: int
    old: tuple[str, ...]
    new: tuple[str, ...]


def violations(store: Readable) -> list[Violation]:
    """Everything wrong with the log; a sound one has none. Give it a store that nobody writes to."""
    return judge(list(store.read()), list(store.appends()))


def judge(events: Sequence[SequencedEvent], appends: Sequence[RecordedAppend]) -> list[Violation]:
    """The violations in these events and recorded appends, which are all of a log."""
    found = [*_numbering(events), *_ids(events), *_coverage(events, appends)]
    if found:
        return found
    history = History(events)
    found.extend(_times(events, appends))
    found.extend(_tracking(events, appends))
    found.extend(history.violations)
    for append in appends:
        found.extend(_condition(history, append))
    return found


class History:
    """Which tags each event carried when, learned by undoing the `$retagged` events backwards."""

    def __init__(self, events: Sequence[SequencedEvent]) -> None:
        self.events = events
        self.violations: list[Violation] = []
        self._changes: list[Change] = []
        tags = {event.position: event.tags for event in events}
        for event in reversed(events):
            for listed in _changes_of(event):
                self._undo(event, listed, tags)
        self._changes.reverse()
        self._since = [change.since for change in self._changes]
        self._of: dict[int, list[Change]] = {}
        for change in self._changes:
            self._of.setdefault(change.position, []).append(change)

    def tags_as_of(self, event: SequencedEvent, head: int) -> tuple[str, ...]:
        """The tags of the event when `head` was the last position."""
        tags = event.tags
        for change in reversed(self._of.get(event.position, ())):
            if change.since > head:
                tags = change.old
        return tags

    def changes(self, after: int, before: int) -> Iterator[Change]:
        """The changes by `$retagged` events between two positions."""
        for change in self._changes[bisect_right(self._since, after) :]:
            if change.since >= before:
                return
            yield change

    def _undo(self, event: SequencedEvent, listed: dict[str, Any], tags: dict[int, tuple[str, ...]]) -> None:
        position, removed, added = listed["position"], set(listed["removed"]), set(listed["added"])
        if not 1 <= position < event.position or self.events[position - 1].type.startswith("$"):
            self._complain(event, f"it retags event {position}, which it cannot")
            return
        new = tags[position]
        if not removed | added or removed & added or not added <= {*new} or removed & {*new}:
            self._complain(event, f"its change of event {position} does not lead to the tags {new}")
        old = tuple(sorted({*new, *removed} - added))
        tags[position] = old
        self._changes.append(Change(event.position, position, old, new))

    def _complain(self, event: SequencedEvent, message: str) -> None:
        self.violations.append(Violation("retag", event.position, message))


def _changes_of(event: SequencedEvent) -> list[dict[str, Any]]:
    return list(event.json()["changes"]) if event.type == RETAGGED else []


def _numbering(events: Sequence[SequencedEvent]) -> Iterator[Violation]:
    for expected, event in enumerate(events, 1):
        if event.position != expected:
            yield Violation("position", event.position, f"expected position {expected}")
            return


def _ids(events: Sequence[SequencedEvent]) -> Iterator[Violation]:
    count = Counter(event.id for event in events)
    for event in events:
        if count[event.id] > 1:
            yield Violation("id", event.position, f"id {event.id} is there {count[event.id]} times")


def _coverage(events: Sequence[SequencedEvent], appends: Sequence[RecordedAppend]) -> Iterator[Violation]:
    expected = 1
    for append in appends:
        if append.first != expected or append.last < append.first:
            message = f"an append has {append.first}..{append.last}, expected one from {expected}"
            yield Violation("append", append.first, message)
        expected = append.last + 1
    if expected != len(events) + 1:
        yield Violation("append", expected, f"appends end at {expected - 1}, the events at {len(events)}")


def _times(events: Sequence[SequencedEvent], appends: Sequence[RecordedAppend]) -> Iterator[Violation]:
    last = events[0].recorded_at if events else None
    for append in appends:
        for event in events[append.first - 1 : append.last]:
            if event.recorded_at != append.recorded_at:
                yield Violation("time", event.position, "its append was recorded at another time")
            if last is not None and event.recorded_at < last:
                yield Violation("time", event.position, f"recorded at {event.recorded_at}, before {last}")
            last = event.recorded_at


def _tracking(events: Sequence[SequencedEvent], appends: Sequence[RecordedAppend]) -> Iterator[Violation]:
    newest: dict[str, int] = {}
    for append in appends:
        tracking = events[append.first - 1].tracking
        for event in events[append.first - 1 : append.last]:
            if event.tracking != tracking:
                yield Violation("tracking", event.position, f"{event.tracking} in an append with {tracking}")
        if tracking is not None:
            source, position = tracking
            if position <= newest.get(source, -1):
                message = f"came with position {position} of {source!r} after {newest[source]}"
                yield Violation("tracking", append.first, message)
            newest[source] = position


def _condition(history: History, append: RecordedAppend) -> Iterator[Violation]:
    if (append.condition is not None) != (append.status == "recorded"):
        message = f"the status is {append.status}, the condition {append.condition!r}"
        yield Violation("status", append.first, message)
    for part in () if append.condition is None else append.condition.parts:
        yield from _part(history, append, part)


def _part(history: History, append: RecordedAppend, part: AppendCondition) -> Iterator[Violation]:
    query, after, first = part.fail_if_events_match, part.after, append.first
    if after >= first:
        yield Violation("condition", first, f"after {after} was beyond the head {first - 1}")
    for event in history.events[after : first - 1]:
        if query.matches(event, history.tags_as_of(event, first - 1)):
            message = f"event {event.position} matched {query!r} and was newer than {after}"
            yield Violation("condition", first, message)
    # A part after 0 may stem from `unless_exists`, which asks only for what is there; and who knows
    # of no event at all cannot have been misled by the retag of one.
    if after > 0:
        yield from _retags(history, query, after, first)


def _retags(history: History, query: Query, after: int, first: int) -> Iterator[Violation]:
    for change in history.changes(after, first):
        event = history.events[change.position - 1]
        if query.matches(event, change.old) or query.matches(event, change.new):
            message = f"retag {change.since} changed event {event.position} of {query!r} after {after}"
            yield Violation("condition", first, message)
