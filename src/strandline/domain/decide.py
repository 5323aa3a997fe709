"""Decisions by commands: read, fold, decide, append. Yields steps, so it serves sync and async."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from ..append import AppendCondition, AppendRequest, AppendResult
from ..engine import Page
from ..errors import AppendConditionFailed, InvalidInput
from ..event import Event
from ..query import Query, QueryItem
from ..tag_id import IdValue
from .boundary import BoundaryOf, Written, nothing_newer, refuse_other_classes
from .cache import DecisionCache, catch_up, only_read, take, up_to_date
from .command import Bound, Command, Executed
from .event import DomainEvent
from .missing_tags import without_tags
from .projection import Projection
from .retry import Decided, until_accepted
from .steps import Append, AskTime, ReadEvents, Steps

Projected = TypeVar("Projected", bound=Projection)

_NOT_YET = AppendResult(0, 0, 0)


def execute(bound: Bound, cache: DecisionCache) -> Steps[Executed[Any]]:
    """Execute a command."""
    execution, attempts = _Execution(bound, cache), bound.command.options.attempts
    if cache and not bound.command.commutative:
        return _execute_with_guess(execution, attempts)
    return until_accepted(execution.decide, attempts)


def _execute_with_guess(execution: _Execution, attempts: int) -> Steps[Executed[Any]]:
    guessed = yield from execution.guess()
    if guessed is not None:
        return guessed
    return (yield from until_accepted(execution.decide, attempts, refused=execution.refused_guesses))


def project(projection: Projected, cache: DecisionCache) -> Steps[Projected]:
    """The state of a projection as of now."""
    (state,) = yield from up_to_date([cache.member(projection)], cache)
    return state  # type: ignore[return-value]


def instance(projection: type[Projected] | Projected, key: tuple[IdValue, ...]) -> Projected:
    """The projection that is meant: one, or a class and its key."""
    if isinstance(projection, type) and issubclass(projection, Projection):
        return projection(*key)
    if key or not isinstance(projection, Projection):
        raise InvalidInput(
            f"a projection is one that has its key, or a class and a key, not {projection!r:.80}",
            hint='write store.project(Course("c1")) or store.project(Course, "c1")',
        )
    return projection


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


class _Execution:
    """One execution of a command."""

    def __init__(self, bound: Bound, cache: DecisionCache) -> None:
        self._bound = bound
        self._command: Command[Any, Any] = bound.command
        self._cache = cache
        self._projections = bound.projections
        key = bound.command.key
        self.refused_guesses = 0
        self._next: BoundaryOf | None = None  # what was prepared for a guess that was not made
        self._once = None if key is None else Query.of(QueryItem(key=key))

    def guess(self) -> Steps[Executed[Any] | None]:
        """Decide with states that our own last append brought up to date, without a look at the log.

        If they are out of date, the condition of the append says so, as it would after a read. Only what is
        accepted counts: None if a rule refuses, if nothing is to be done, or if the guess was wrong.
        """
        boundary = self._next = self._boundary()
        unread = [member for member in boundary.members if not member.is_own]
        if len(unread) == len(boundary.members):
            return None
        self._next = None
        yield from catch_up(unread, self._cache)
        try:
            decided = yield from self._decide(boundary, self._cache.handed_out(boundary.members))
        except Exception:  # noqa: BLE001  (whatever a rule raises, it raises it again after a read)
            return None
        if decided.request is None and not decided.result.duplicate:
            return None
        result = decided.result
        try:
            if decided.request is not None:
                result = yield Append(decided.request)
        except (AppendConditionFailed, InvalidInput):
            self.refused_guesses += 1
            return None
        if decided.on_accepted is not None and not result.duplicate:
            yield from decided.on_accepted(result)
        return decided.executed(result, 1)

    def decide(self) -> Steps[Decided]:
        """Decide with states as of now."""
        boundary, self._next = self._next or self._boundary(), None
        members = boundary.members
        read = only_read(members)
        if read is None:
            states = yield from up_to_date(members, self._cache)
        else:
            take(members, (yield read))
            states = self._cache.handed_out(members)
        return (yield from self._decide(boundary, states))

    def _boundary(self) -> BoundaryOf:
        return BoundaryOf([self._cache.member(projection) for projection in self._projections])

    def _decide(self, boundary: BoundaryOf, states: Sequence[Projection]) -> Steps[Decided]:
        if self._once is not None:
            # After the read: a twin that the read has seen is found here, and not taken for somebody else.
            done: Page = yield ReadEvents(self._once)
            if done.events:
                first, last = done.events[0].position, done.events[-1].position
                return Decided(None, None, AppendResult(first, last, last - first + 1, duplicate=True))
        now = (yield AskTime()) if self._bound.asks_for_time else None
        decided, value = self._bound.decide(states, now)
        if not decided:
            return Decided.nothing(value, max(member.head for member in boundary.members))
        refuse_other_classes(boundary.members, decided)
        written = _to_write(decided, self._command)
        events = [event for event, _ in written]
        condition = condition_of(self._command, boundary)
        request = AppendRequest(events, condition, unless_exists=self._once)
        yield from without_tags([member.item for member in boundary.members], events)
        if self._command.commutative or not self._cache.keeps_states:
            return Decided(request, value, _NOT_YET)

        def advance(result: AppendResult) -> Steps[None]:
            yield from self._cache.advance(boundary.members, written, result.last)

        return Decided(request, value, _NOT_YET, advance)


def condition_of(command: Command[Any, Any], boundary: BoundaryOf) -> AppendCondition | None:
    """What the append of a command depends on."""
    if not command.commutative:
        return boundary.condition
    if not command.guard:
        return None
    types = [cls.event_type for cls in command.guard]
    keys = {(member.item.tags, member.head) for member in boundary.members}
    return nothing_newer([(Query.of(QueryItem(types, tags)), head) for tags, head in sorted(keys)])


def _to_write(decided: Sequence[Event | DomainEvent], command: Command[Any, Any]) -> list[Written]:
    metadata, key = command.options.metadata or None, command.key
    written = [_one_to_write(event, metadata) for event in decided]
    return written if key is None else [(event.with_key(key), read) for event, read in written]


def _one_to_write(event: Event | DomainEvent, metadata: Mapping[str, str] | None) -> Written:
    if not isinstance(event, DomainEvent):
        return event if metadata is None else event.with_metadata(metadata), None
    if type(event).to_event is not DomainEvent.to_event:  # a class may add to what it writes
        return event.to_event(metadata=metadata), None
    return event._written(metadata=metadata)
