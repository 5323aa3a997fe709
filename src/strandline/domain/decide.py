"""Decisions by commands: read, fold, decide, append. Yields steps, so it serves sync and async."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar

from ..append import AppendResult
from ..engine import Page
from ..errors import AppendConditionFailed, EventIdConflict, IdempotencyKeyReused, InvalidInput
from ..event import SequencedEvent
from ..query import Query, QueryItem
from ..tag_id import IdValue
from .appending import append_of
from .cache import DecisionCache, catch_up, only_read, take, up_to_date
from .command import Bound, Command, Executed
from .member import Member, Uncopyable
from .projection import Projection, refuse_own_beginning
from .retry import Decided, until_accepted
from .steps import Append, AskTime, ReadEvents, Steps

Projected = TypeVar("Projected", bound=Projection)

_NOT_YET = AppendResult(0, 0, 0)


def execute(bound: Bound, cache: DecisionCache) -> Steps[Executed[Any]]:
    """Execute a command."""
    execution = _Execution(bound, cache)
    attempts = bound.command.options.attempts
    if cache and attempts > 1 and not bound.command.commutative:
        return execution.guess_first()
    return until_accepted(execution.decide, attempts)


def project(projection: Projected, cache: DecisionCache) -> Steps[Projected]:
    """The state of a projection as of now."""
    (state,) = yield from up_to_date([cache.member(projection)], cache)
    return state  # type: ignore[return-value]


def instance(projection: type[Projected] | Projected, key: tuple[IdValue, ...]) -> Projected:
    """The projection that is meant: one, or a class and its key."""
    if isinstance(projection, type) and issubclass(projection, Projection):
        refuse_own_beginning(projection)
        return projection(*key)
    if key or not isinstance(projection, Projection):
        raise InvalidInput(
            f"a projection is one that has its key, or a class and a key, not {projection!r:.80}",
            hint='write store.project(Course("c1")) or store.project(Course, "c1")',
        )
    refuse_own_beginning(type(projection))
    return projection


def instances(projections: Sequence[object]) -> list[Projection]:
    """The projections, if that is what they are."""
    found = []
    for projection in projections:
        if not isinstance(projection, Projection):
            is_query = isinstance(projection, (Query, str))
            raise InvalidInput(
                f"a boundary consists of projections, not {projection!r:.80}",
                hint="write store.decide(…) for a query, tags or a stream"
                if is_query
                else 'write store.boundary(Course("c1"))',
            )
        refuse_own_beginning(type(projection))
        found.append(projection)
    return found


class _Execution:
    """One execution of a command."""

    def __init__(self, bound: Bound, cache: DecisionCache) -> None:
        self._bound = bound
        self._command: Command[Any, Any] = bound.command
        self._cache = cache
        key = bound.command.key
        self._next: list[Member] | None = None  # what was prepared for a guess that was not made
        self._once = None if key is None else Query.of(QueryItem(key=key))
        self._has_questions = key is not None or bound.asks_for_time
        self._has_guessed = False

    def guess_first(self) -> Steps[Executed[Any]]:
        """Decide with states that our own last append brought up to date, without a look at the log.

        If they are out of date, the condition of the append says so, as it would after a read: that is the first
        attempt. What comes of it without an append counts if a read finds nothing newer.
        """
        decided = yield from self._guess()
        if decided is not None:
            try:
                result = decided.result if decided.request is None else (yield Append(decided.request))
            except (AppendConditionFailed, EventIdConflict, InvalidInput):
                pass
            else:
                if result.duplicate:
                    return (yield from decided.repeated(result, 1))
                if decided.on_accepted is not None:
                    yield from decided.on_accepted(result)
                return decided.executed(result, 1)
        attempts = self._command.options.attempts
        return (yield from until_accepted(self.decide, attempts, refused=int(self._has_guessed)))

    def decide(self) -> Steps[Decided]:
        """Decide with states as of now."""
        members, self._next = self._next or self._cache.members(self._bound.projections), None
        read = only_read(members)
        if read is None:
            states = yield from up_to_date(members, self._cache)
        else:
            take(members, (yield read))
            states = self._cache.handed_out(members)
        if self._has_questions:
            return (yield from self._ask_and_decide(members, states))
        return self._decide(members, states, None)

    def _guess(self) -> Steps[Decided | None]:
        """What the command decides with our own states; None if it is to decide again, or for the first time."""
        members = self._next = self._cache.members(self._bound.projections)
        unread = [member for member in members if not member.is_own]
        if len(unread) == len(members):
            return None
        self._next = None
        yield from catch_up(unread, self._cache)
        try:
            states = self._cache.handed_out(members)
        except Uncopyable:  # see `up_to_date`
            return None
        # A state that cannot be copied is handed out itself, and is of no use afterwards.
        if not all(member.is_kept for member in members):
            return None
        self._has_guessed = True
        decided, refusal = None, None
        try:
            if self._has_questions:
                decided = yield from self._ask_and_decide(members, states)
            else:
                decided = self._decide(members, states, None)
        except Exception as error:  # noqa: BLE001  (whatever a rule raises)
            refusal = error
        if decided is not None and not decided.told and decided.is_append:
            return decided
        if not (yield from self._is_as_of_now(members)):
            self._next = members
            return None
        if decided is None:
            assert refusal is not None
            try:
                raise refusal
            finally:
                del refusal, states  # which the traceback would keep in a circle
        yield from decided.told
        return decided if decided.is_append else Decided.nothing(decided.value, members[0].head)

    def _is_as_of_now(self, members: list[Member]) -> Steps[bool]:
        """Bring states to the present; whether they were there already."""
        known = [member.state for member in members]
        yield from catch_up(members, self._cache)
        return all(member.state is state for member, state in zip(members, known, strict=True))

    def _ask_and_decide(self, members: list[Member], states: Sequence[Projection]) -> Steps[Decided]:
        if self._once is not None:
            # After the read: a twin that the read has seen is found here, and not taken for somebody else.
            done: Page = yield ReadEvents(self._once)
            if done.events:
                self._check_repeat(done.events)
                first, last = done.events[0].position, done.events[-1].position
                result = AppendResult(first, last, last - first + 1, duplicate=True)
                events = tuple([event.as_written() for event in done.events])
                return Decided(None, None, result, head=done.head, events=events)
        now = (yield AskTime()) if self._bound.asks_for_time else None
        return self._decide(members, states, now)

    def _decide(self, members: list[Member], states: Sequence[Projection], now: datetime | None) -> Decided:
        decided, value = self._bound.decide(states, now)
        if not decided:
            return Decided.nothing(value, max(member.head for member in members))
        arguments = "" if self._once is None else self._bound.fingerprint()
        request, written, told = append_of(self._command, members, decided, self._once, arguments)
        head = max([member.head for member in members])
        check = None if self._once is None else self._check_repeat
        if self._command.commutative or not self._cache.keeps_states:
            return Decided(request, value, _NOT_YET, told, head=head, check_repeat=check)

        def advance(result: AppendResult) -> Steps[None]:
            yield from self._cache.advance(members, written, result.last)

        return Decided(request, value, _NOT_YET, told, advance, head=head, check_repeat=check)

    def _check_repeat(self, events: Sequence[SequencedEvent]) -> None:
        """Raise if the key of the command was used with other arguments. Older logs do not know with which."""
        known = events[0].arguments
        if known and known != self._bound.fingerprint():
            raise IdempotencyKeyReused(
                f"{self._command.name} was done with the key {self._command.options.idempotency_key!r:.80} and other"
                f" arguments, at position {events[0].position}"
            )
