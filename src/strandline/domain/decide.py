"""The loop of a decision: read, fold, decide, append; on conflict again. Yields steps, so it serves sync and async."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, TypeVar

from ..append import AppendCondition, AppendRequest, AppendResult
from ..errors import AppendConditionFailed, InvalidInput
from ..event import Event, SequencedEvent
from ..query import Query, QueryItem
from .boundary import BoundaryOf, last_items
from .command import Bound, Command, Executed
from .event import DomainEvent
from .projection import Projection
from .steps import Append, AskTime, Events, Pause, ReadEvents, Steps

Projected = TypeVar("Projected", bound=Projection)

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.002, 0.25


def execute(bound: Bound) -> Steps[Executed[Any]]:
    """Execute a command."""
    options, key = bound.command.options, bound.command.key
    once = None if key is None else Query.of(QueryItem(key=key))
    projections = bound.projections
    for attempt in range(1, options.attempts + 1):
        boundary = BoundaryOf(projections)
        head = yield from fold(boundary)
        if once is not None:
            # After the read: whoever is seen by it is found here, and does not look like somebody else's doing.
            done: Events = yield ReadEvents(once)
            if done.events:
                first, last = done.events[0].position, done.events[-1].position
                return Executed(first, last, last - first + 1, duplicate=True, attempts=attempt)
        now = (yield AskTime()) if bound.asks_for_time else None
        decided, value = bound.decide(boundary.states, now)
        if not decided:
            return Executed(head, head, 0, value=value, attempts=attempt)
        events = _events(decided, bound.command)
        request = AppendRequest(events, _condition(bound, boundary, head), unless_exists=once)
        try:
            result: AppendResult = yield Append(request)
        except AppendConditionFailed as error:
            error.attempts = attempt
            if attempt == options.attempts:
                raise
            yield Pause(_jitter(attempt))
            continue
        value = None if result.duplicate else value
        return Executed(result.first, result.last, result.count, result.duplicate, value, attempt)
    raise AssertionError("attempts is at least 1")


def instance(projection: type[Projected] | Projected, key: tuple[str, ...]) -> Projected:
    """The projection that is meant: one, or a class and its key."""
    return projection(*key) if isinstance(projection, type) else projection


def instances(projections: Sequence[object]) -> list[Projection]:
    """The projections, if that is what they are."""
    found = []
    for projection in projections:
        if not isinstance(projection, Projection):
            raise InvalidInput(
                f"a boundary consists of projections, not {projection!r:.80}",
                hint='write store.boundary(Course("c1"))',
            )
        found.append(projection)
    return found


def project(projection: Projected) -> Steps[Projected]:
    """The state of a projection as of now."""
    boundary = BoundaryOf([projection])
    yield from fold(boundary)
    return boundary.states[0]  # type: ignore[return-value]


def fold(boundary: BoundaryOf) -> Steps[int]:
    """Read the boundary and fold it; returns the head of the read."""
    _, head = yield from fold_with_events(boundary)
    return head


def fold_with_events(boundary: BoundaryOf) -> Steps[tuple[list[SequencedEvent], int]]:
    """Read the boundary and fold it; returns the events in order, and the head that they were read with."""
    events: list[SequencedEvent] = []
    head: int | None = None
    query = boundary.read_query
    if query is not None:
        found: Events = yield ReadEvents(query)
        boundary.fold(found.events)
        events, head = found.events, found.head
    for state, item in last_items(boundary.states):
        newest: Events = yield ReadEvents(Query.of(item), until=head, newest_only=True)
        for event in newest.events:
            state.apply(event)
        events = sorted(
            {event.position: event for event in (*events, *newest.events)}.values(), key=_position
        )
        head = newest.head if head is None else head
    return events, head or 0


def _position(event: SequencedEvent) -> int:
    return event.position


def _condition(bound: Bound, boundary: BoundaryOf, head: int) -> AppendCondition | None:
    command = bound.command
    if not command.commutative:
        return boundary.condition(head)
    if not command.guard:
        return None
    types = [cls.event_type for cls in command.guard]
    items = [QueryItem(types, [value.tag for value in state.key()]) for state in boundary.states]
    return AppendCondition(Query(items), head)


def _events(decided: Sequence[Event | DomainEvent], command: Command[Any, Any]) -> list[Event]:
    metadata, key = command.options.metadata or {}, command.key
    events = [
        event.to_event(metadata=metadata) if isinstance(event, DomainEvent) else event.with_metadata(metadata)
        for event in decided
    ]
    return events if key is None else [event.with_key(key) for event in events]


def _jitter(attempt: int) -> float:
    """A random part of a pause that doubles: full jitter, so that rivals do not meet again."""
    return random.uniform(0, min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** (attempt - 1)))
