"""Auditing recorded conditions: was every accepted append allowed, with the tags as of then?

Uses nothing but reads of pages, so it serves every engine.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from typing import Protocol

from ..append import AppendCondition, RecordedAppend
from ..errors import CorruptLog
from ..event import SequencedEvent
from ..names import RETAGGED
from ..query import Query
from ..retag import RetagHistory
from . import Page, Span

PAGE = 2_000


class Reader(Protocol):
    """What an audit needs of a log: an engine, or one snapshot of it."""

    def read_page(self, query: Query, span: Span, size: int) -> Page:
        """See `Engine.read_page`."""
        ...


class History:
    """The tags of every event, as of any position."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._changes = RetagHistory(events(reader, Query.types(RETAGGED), Span()))
        self.retagged = sorted(self._changes.events)
        self.retags = sorted(self._changes.by_retag)
        self.tags = self._changes.tags
        self.concern = self._changes.concern

    def changed_by(self, retag: int) -> Iterator[SequencedEvent]:
        """The events that the retag at this position changed."""
        return map(self.event, self._changes.by_retag[retag])

    def event(self, position: int) -> SequencedEvent:
        """The event at a position."""
        for event in events(self._reader, Query.all(), Span(position - 1, position)):
            return event
        raise CorruptLog(f"there is no event at position {position}, but a retag changed it")


def events(reader: Reader, query: Query, span: Span | None) -> Iterator[SequencedEvent]:
    """The matching events of a span, page by page."""
    while span is not None:
        page = reader.read_page(query, span, PAGE)
        yield from page.events
        span = page.rest


def violation(reader: Reader, history: History, append: RecordedAppend) -> int | None:
    """The first position that should have refused the append, None if its condition held."""
    for part in () if append.condition is None else append.condition.parts:
        found = _violation(reader, history, part, append.first - 1)
        if found is not None:
            return found
    return None


def _violation(reader: Reader, history: History, part: AppendCondition, head: int) -> int | None:
    if part.after >= head:
        return None
    looks = (
        _unchanged(reader, history, part, head),
        _retagged(history, part, head),
        _retags(history, part, head),
    )
    found = (next(positions, None) for positions in looks)
    return min((position for position in found if position is not None), default=None)


def _unchanged(reader: Reader, history: History, part: AppendCondition, head: int) -> Iterator[int]:
    """Events that match now and matched then."""
    query = part.fail_if_events_match
    for event in events(reader, query, Span(part.after, head)):
        if query.matches(event, history.tags(event, head)):
            yield event.position


def _retagged(history: History, part: AppendCondition, head: int) -> Iterator[int]:
    """Events that matched then, and were retagged at some time."""
    for position in _between(history.retagged, part.after, head):
        event = history.event(position)
        if part.fail_if_events_match.matches(event, history.tags(event, head)):
            yield position


def _retags(history: History, part: AppendCondition, head: int) -> Iterator[int]:
    """Retags of events that the query matched before or after."""
    query = part.fail_if_events_match
    # `unless_exists` is recorded as a part after 0, and asks only for what is there, retagged or not.
    for retag in _between(history.retags, part.after, head) if part.after else ():
        for event in history.changed_by(retag):
            if history.concern(query, event, retag):
                yield retag


def _between(positions: list[int], after: int, until: int) -> list[int]:
    return positions[bisect.bisect_right(positions, after) : bisect.bisect_right(positions, until)]
