"""Decisions without classes: read the events of some tags, a stream or a query; decide; append."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Generic, TypedDict, TypeVar

import msgspec

from ..activity import DECIDING, doing
from ..append import AppendCondition, AppendRequest, AppendResult
from ..callables import is_async
from ..engine import Page
from ..errors import InvalidEvent, InvalidInput, InvalidQuery
from ..event import Event, SequencedEvent
from ..names import an, check_place, check_tags
from ..partition import stream_for
from ..query import Query, QueryItem
from ..tag_id import TagId
from . import missing_tags
from .command import ATTEMPTS, Executed, check_attempts, collected, refuse_lost
from .event import DomainEvent
from .projection import Projection
from .retry import Decided, until_accepted
from .steps import ReadEvents, Steps

R = TypeVar("R")


class Decision(msgspec.Struct, Generic[R], frozen=True):
    """What a decision came to: a value for the caller, and the events to write."""

    value: R
    events: Sequence[Event | DomainEvent] = ()


Decide = Callable[[Sequence[SequencedEvent]], Iterable[Event | DomainEvent] | Event | DomainEvent | None]
DecideValue = Callable[
    [Sequence[SequencedEvent]], Decision[R] | Generator[Event | DomainEvent, Any, R] | None
]
TagWith = Callable[[Event], Iterable[str]]
Route = str | Callable[[tuple[str, ...]], str | None]


class DecideOptions(TypedDict, total=False):
    """The options of `store.decide`."""

    tag_with: TagWith | None
    stream: Route | None
    condition: Query | None
    attempts: int


class Scope(msgspec.Struct, frozen=True):
    """What a decision depends on, the tags that it is named by, and the stream that its events go to."""

    query: Query
    tags: tuple[str, ...] = ()
    stream: str | None = None


def decide(
    boundary: Query | Iterable[str],
    function: Decide | DecideValue[Any],
    *,
    tag_with: TagWith | None = None,
    stream: Route | None = None,
    condition: Query | None = None,
    attempts: int = ATTEMPTS,
) -> Steps[Executed[Any]]:
    """Decide on the events of a boundary, and append what was decided if nothing in it changed."""
    if not callable(function):
        raise InvalidInput(
            f"what decides is a function, not {type(function).__name__}",
            hint="write store.decide(tags, lambda events: [Event(…)])",
        )
    if is_async(function):
        raise InvalidInput(
            "what decides is a plain function: a decision waits for nothing",
            hint="write def decide(events): …; of an async store, store.decide(…) itself is awaited",
        )
    if tag_with is not None and (not callable(tag_with) or is_async(tag_with)):
        raise InvalidInput(
            f"tag_with is a plain function of an event, not {tag_with!r:.60}",
            hint="write tag_with=lambda event: [tags]",
        )
    scope = scope_of(boundary)
    destination = _destination(scope, stream)
    guarded = scope.query if condition is None else _narrower(condition)

    def once() -> Steps[Decided]:
        found: Page = yield ReadEvents(scope.query)
        decided, value = doing(DECIDING, _call, function, found.events)
        if not decided:
            return Decided.nothing(value, found.head)
        events = [_addressed(event, tag_with, destination) for event in decided]
        request = AppendRequest(events, AppendCondition(guarded, found.head))
        told = missing_tags.without_tags(scope.query.items, events)
        return Decided(request, value, AppendResult(0, 0, 0), told, head=found.head)

    return until_accepted(once, check_attempts(attempts))


def _narrower(condition: Query) -> Query:
    if not isinstance(condition, Query):
        raise InvalidQuery(
            f"condition is a query, not {type(condition).__name__}",
            hint="write condition=Query.of(…): what refuses the append is what of it is newer than the read",
        )
    return condition


def scope_of(boundary: Query | Iterable[str]) -> Scope:
    """A query is taken as it is, text is the name of a stream, anything else is a set of tags joined by OR."""
    if isinstance(boundary, Projection):
        raise InvalidQuery(
            f"a boundary without classes is a query, tags or a stream, not {an(type(boundary).__name__)}",
            hint="write store.boundary(…) for projections, or the query of this one: .query()",
        )
    if isinstance(boundary, Query):
        return Scope(boundary, tuple(sorted({tag for item in boundary.items for tag in item.tags})))
    if isinstance(boundary, TagId):  # a str, but never the name of a stream
        boundary = (boundary,)
    if isinstance(boundary, str):
        return Scope(Query.stream(boundary), (), boundary)
    tags = check_tags(boundary, InvalidQuery)
    if not tags:
        raise InvalidQuery(
            "a decision without tags depends on nothing", hint="name the tags, or use store.append"
        )
    return Scope(Query(QueryItem(tags=(tag,)) for tag in tags), tags, stream_for(tags))


def _destination(scope: Scope, stream: Route | None) -> str | None:
    if stream is None:
        return scope.stream
    name = stream(scope.tags) if callable(stream) else stream
    return None if name is None else check_place(name, "stream", InvalidInput)


def _call(
    function: Decide | DecideValue[Any], events: Sequence[SequencedEvent]
) -> tuple[list[Event | DomainEvent], Any]:
    name = getattr(function, "__qualname__", repr(function))
    returned = function(events)
    if isinstance(returned, Decision):
        decided, _ = collected(name, returned.events, _GIVE)
        refuse_lost(
            name, decided, returned.value, "write Decision(value, events): Decision(None, [Event(…)])"
        )
        return decided, returned.value
    return collected(name, returned, _GIVE)


_GIVE = "return or yield events; with a value for the caller: return Decision(value, events)"


def _addressed(event: Event | DomainEvent, tag_with: TagWith | None, stream: str | None) -> Event:
    """The event to write: with more tags, and in the stream of the decision unless it names its own."""
    if isinstance(event, DomainEvent):
        event = event.to_event()
    if tag_with is not None:
        event = event.with_tags(*check_tags(tag_with(event), InvalidEvent))
    return event if stream is None or event.stream is not None else event.in_stream(stream)
