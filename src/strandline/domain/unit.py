"""A boundary by hand: read some projections, look at them, collect events, append once under the condition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Generic, Self, TypeVarTuple

from ..append import AppendRequest, AppendResult
from ..errors import AppendConditionFailed, InvalidInput
from ..event import Event, SequencedEvent
from ..names import an
from .appending import refuse_other_classes
from .boundary import begin_by_hand, read_query, unchanged
from .cache import DecisionCache, catch_up
from .event import DomainEvent
from .missing_tags import without_tags
from .projection import Projection
from .steps import Append, Steps

Ts = TypeVarTuple("Ts")

_NOTHING_KEPT = DecisionCache(0)


class Unit(Generic[*Ts]):
    """What both kinds of boundary have: folded states, the events they were folded from, the head, the result."""

    def __init__(self, projections: Sequence[Projection]) -> None:
        self._projections = projections
        self._members = begin_by_hand(projections)
        self._read: tuple[tuple[*Ts], list[SequencedEvent], int] | None = None
        self.result: AppendResult | None = None
        self._collected: list[Event | DomainEvent] = []
        self._is_entered = False
        self._is_open = False
        """It was read, so events can be decided on."""

    @property
    def states(self) -> tuple[*Ts]:
        """The projections as of the read."""
        return self._what_was_read()[0]

    @property
    def events(self) -> list[SequencedEvent]:
        """What they were folded from."""
        return self._what_was_read()[1]

    @property
    def head(self) -> int:
        """The position up to which was read."""
        return self._what_was_read()[2]

    def _what_was_read(self) -> tuple[tuple[*Ts], list[SequencedEvent], int]:
        if self._read is None:
            raise _not_open()
        return self._read

    def append(self, *events: Event | DomainEvent) -> None:
        """Collect events; they are written when the block ends."""
        if not self._is_open:
            raise _not_open()
        for event in events:
            if not isinstance(event, (Event, DomainEvent)):
                raise InvalidInput(
                    f"a boundary collects events, not {an(type(event).__name__)}",
                    hint="write b.append(event), or b.append(*events) for several",
                )
        self._collected.extend(events)

    @contextmanager
    def _entering(self) -> Iterator[None]:
        """Nobody else may enter from now on, also while the read is awaited."""
        if self._is_entered:
            raise InvalidInput(
                "the boundary is open already",
                hint="make one of its own for the inner block: store.boundary(…)",
            )
        self._is_entered = True
        try:
            yield
        except BaseException:
            self._is_entered = self._is_open = False
            raise

    @contextmanager
    def _leaving(self) -> Iterator[None]:
        self._is_open = False
        try:
            yield
        finally:
            self._is_entered = False

    def _begin(self) -> Steps[None]:
        self._members = begin_by_hand(self._projections)  # whoever tries again begins anew
        self._collected = []
        self._read = self.result = None
        seen: list[SequencedEvent] = []
        yield from catch_up(self._members, _NOTHING_KEPT, seen)
        by_position = {event.position: event for event in seen}
        states: Any = tuple(member.state for member in self._members)
        events = [by_position[position] for position in sorted(by_position)]
        self._read = states, events, self._members[0].head
        self._is_open = True

    def _end(self) -> Steps[None]:
        collected, self._collected = self._collected, []
        if collected:
            refuse_other_classes(self._members, collected)
            request = AppendRequest(collected, unchanged(self._members))
            yield from without_tags(read_query(self._members).items, request.events)
            try:
                self.result = yield Append(request)
            except AppendConditionFailed as refusal:
                refusal.advise(_RUN_AGAIN)
                raise
        else:
            self.result = AppendResult(self.head, self.head, 0)


_RUN_AGAIN = (
    "run the block again, with a new store.boundary(…). If the block itself called store.append,"
    " write b.append(event) instead"
)


def _not_open() -> InvalidInput:
    return InvalidInput(
        "the boundary is not open", hint="write: with store.boundary(…) as b: b.states …, b.append(…)"
    )


class Boundary(Unit[*Ts]):
    """`with store.boundary(Course("c1"), Student("s1")) as b:`. An exception in the block appends nothing."""

    def __init__(self, take: Callable[[Steps[None]], None], projections: Sequence[Projection]) -> None:
        super().__init__(projections)
        self._take = take

    def __enter__(self) -> Self:
        with self._entering():
            self._take(self._begin())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._leaving():
            if kind is None:
                self._take(self._end())


class AsyncBoundary(Unit[*Ts]):
    """`async with store.boundary(Course("c1")) as b:`. See `Boundary`."""

    def __init__(self, take: Callable[[Steps[None]], Any], projections: Sequence[Projection]) -> None:
        super().__init__(projections)
        self._take = take

    async def __aenter__(self) -> Self:
        with self._entering():
            await self._take(self._begin())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._leaving():
            if kind is None:
                await self._take(self._end())
