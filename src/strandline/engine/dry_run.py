"""What an append would meet, without appending: the question of `EventStore.check`, for engines that search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Protocol

from ..append import AppendCondition, Check
from ..event import SequencedEvent
from ..names import RETAGGED
from ..query import Query
from ..retag import RetagHistory
from . import Page, Span
from .rules import refuse_beyond_head

PAGE = 500
_RETAGS = Query.types(RETAGGED)

Refusal = tuple[int, SequencedEvent, int | None]
"""The index of a part, the event that conflicts with it, and, if that is a retag, the event that it changed."""


class Snapshot(Protocol):
    """One state of a log."""

    def read_page(self, query: Query, span: Span, size: int) -> Page:
        """See `Engine.read_page`."""
        ...

    def events_at(self, positions: Sequence[int]) -> list[SequencedEvent]:
        """See `Engine.events_at`."""
        ...


def dry_run(log: Snapshot, condition: AppendCondition, most: int) -> Check:
    """Look for conflicts with every part of a condition, in the order in which an append looks for them."""
    retags = _Retags(log, condition.after)
    refusal: Refusal | None = None
    conflicts: dict[int, SequencedEvent] = {}
    is_retagged = False
    refuse_beyond_head(condition, retags.head)
    for number, part in enumerate(condition.parts):
        matching = {event.position: event for event in _first_matching(log, part, most + 1)}
        changed = dict(retags.concerning(part))
        retag_events = {event.position: event for event in log.events_at(list(changed))}
        found = matching | retag_events
        if found and refusal is None:
            first = min(found)
            refusal = number, found[first], changed.get(first)
        conflicts |= found
        is_retagged = is_retagged or bool(changed)
    return outcome_of_check(condition, retags.head, refusal, conflicts, most, is_retagged=is_retagged)


def outcome_of_check(
    condition: AppendCondition,
    head: int,
    refusal: Refusal | None,
    conflicts: Mapping[int, SequencedEvent],
    most: int,
    *,
    is_retagged: bool,
) -> Check:
    """What the store answers, once the conflicts are known."""
    renewed = AppendCondition.all_of(
        *(AppendCondition(part.fail_if_events_match, after=head) for part in condition.parts)
    )
    if refusal is None:
        return Check(True, head, None, None, None, (), True, renewed)
    number, conflict, retagged = refusal
    items = condition.parts[number].fail_if_events_match.items
    item = None if retagged is not None else next(i for i, it in enumerate(items) if it.matches(conflict))
    listed = tuple(conflicts[position] for position in sorted(conflicts)[:most])
    is_complete = len(conflicts) <= most and not is_retagged
    return Check(False, head, conflict, number, item, listed, is_complete, None if is_retagged else renewed)


def _first_matching(log: Snapshot, part: AppendCondition, most: int) -> list[SequencedEvent]:
    query = part.fail_if_events_match
    size = PAGE if query.has_where else min(most, PAGE)
    return list(islice(_matching(log, query, Span(part.after), size), most))


def _matching(log: Snapshot, query: Query, span: Span | None, size: int) -> Iterator[SequencedEvent]:
    while span is not None:
        page = log.read_page(query, span, size)
        yield from page.events
        span = page.rest


class _Retags:
    """The retags after a position."""

    def __init__(self, log: Snapshot, after: int) -> None:
        self._log = log
        self.head = log.read_page(_RETAGS, Span(), 1).head
        self._history = RetagHistory(_matching(log, _RETAGS, Span(after), PAGE))

    def concerning(self, part: AppendCondition) -> Iterator[tuple[int, int]]:
        """The positions of those that concern a part, each with the first changed event on account of which it does."""
        query, history = part.fail_if_events_match, self._history
        for retag, positions in history.by_retag.items():
            if retag <= part.after:
                continue
            events = self._log.events_at(positions)
            changed = (event.position for event in events if history.concern(query, event, retag))
            first = next(changed, None)
            if first is not None:
                yield retag, first
