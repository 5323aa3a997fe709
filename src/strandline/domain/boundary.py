"""Boundaries: the events that a decision depends on, and the states that are folded from them."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from ..append import AppendCondition
from ..errors import InvalidQuery
from ..event import Event, SequencedEvent
from ..names import RETAGGED
from ..query import Query, QueryItem
from ..retag import changes_of
from .clashes import refuse_clashes
from .event import DomainEvent
from .event_shape import event_shape
from .projection import Projection
from .shape import Handler, shape_of

Route = tuple["Member", Handler, type[DomainEvent], tuple[str, ...]]

# States whose heads are no further apart than this are brought up to date by one read.
NEAR = 1_000


class Member:
    """A projection in a boundary: its state, and the head of the read that it is the state of."""

    __slots__ = ("head", "is_kept", "is_own", "item", "state")

    def __init__(
        self, state: Projection, head: int = 0, *, is_own: bool = False, is_kept: bool = False
    ) -> None:
        self.state = state
        self.item = state.item()
        self.head = head
        self.is_own = is_own  # nobody is known to have written to it since our own append
        self.is_kept = is_kept  # somebody else has the state too: it must not change

    @property
    def is_guarded_whole(self) -> bool:
        """Whether all its events spoil a decision, so that an accepted append proves that there were no others."""
        return self.state.guard_item() == self.item

    def start_again(self) -> None:
        """Forget the state."""
        self.state, self.head, self.is_own, self.is_kept = self.state.fresh(), 0, False, False

    def changing_state(self) -> Projection:
        """The state, to be changed."""
        if self.is_kept:
            self.state, self.is_kept = self.state.copy(), False
        return self.state

    def is_misled_by(self, events: Iterable[SequencedEvent], head: int) -> bool:
        """Whether what was folded is no longer what the item means: a retag took or gave one of its tags.

        Also if the log is shorter than what was folded, because it was restored from a backup.
        """
        return self.head > head or any(
            event.type == RETAGGED
            and event.position > self.head > 0
            and any(
                not {*change.removed, *change.added}.isdisjoint(self.item.tags)
                for change in changes_of(event)
            )
            for event in events
        )


class BoundaryOf:
    """The boundary of some projections: what to read, what must not change, and how to fold."""

    def __init__(self, members: Sequence[Member]) -> None:
        if not members:
            raise InvalidQuery(
                "a decision without projections depends on nothing",
                hint="give the command a projection parameter, or use store.append",
            )
        self.members = members
        refuse_clashes_of("a boundary", tuple(dict.fromkeys(type(member.state) for member in members)))

    @classmethod
    def fresh(cls, projections: Iterable[Projection]) -> BoundaryOf:
        """The boundary with nothing folded yet."""
        return cls([Member(projection.fresh()) for projection in projections])

    @property
    def states(self) -> tuple[Projection, ...]:
        """The states of its projections."""
        return tuple(member.state for member in self.members)

    @property
    def read_query(self) -> Query:
        """The events that the states are folded from."""
        return Query(member.item for member in self.members)

    @property
    def condition(self) -> AppendCondition | None:
        """Nothing that matters is newer than the reads."""
        guarded: dict[int, list[QueryItem]] = {}
        for member in self.members:
            item = member.state.guard_item()
            if item is not None:
                guarded.setdefault(member.head, []).append(item)
        parts = [AppendCondition(Query(items), head) for head, items in guarded.items()]
        return AppendCondition.all_of(*parts) if parts else None

    def fold(self, events: Iterable[SequencedEvent]) -> None:
        """Take events into the states."""
        fold(self.members, events)


def near(members: Sequence[Member]) -> tuple[list[Member], list[Member]]:
    """Those with the lowest heads, which one read can serve; and the others."""
    lowest = min(member.head for member in members)
    group = [member for member in members if member.head <= lowest + NEAR]
    return group, [member for member in members if member.head > lowest + NEAR]


def query_of(members: Sequence[Member]) -> Query:
    """What is to be read for the members; retags too, if they can matter for what was folded."""
    items = [member.item for member in members]
    if any(member.head > 0 and member.item.tags for member in members):
        items.append(_RETAGS)
    return Query(items)


def fold(members: Sequence[Member], events: Iterable[SequencedEvent]) -> None:
    """Take the events of the members' items into those states whose own item they match, unless they have them."""
    routes = _routes(members)
    for event in events:
        going = routes.get(event.type, ())
        # An event that only one of them can have asked for need not be looked at.
        tags = f"\n{event.raw_tags}\n" if len(going) > 1 else None
        decoded: dict[type[DomainEvent], DomainEvent] = {}
        for member, handler, cls, wanted in going:
            if event.position <= member.head or (tags and not all(tag in tags for tag in wanted)):
                continue
            typed = decoded.get(cls)
            if typed is None:
                typed = decoded[cls] = cls.from_event(event)
            member.changing_state().handle(handler, typed, event)


def advanced(member: Member, events: Sequence[Event]) -> Projection | None:
    """The state after an own append of these events; None if that takes a look at the log."""
    handlers = shape_of(type(member.state)).handlers
    mine = [event for event in events if member.item.matches(event)]
    if any(handlers[event.type][0].takes_recorded for event in mine):
        return None
    state = member.state
    if mine:
        state, mine = (state.fresh(), mine[-1:]) if state.last_only else (state.copy(), mine)
        for event in mine:
            handler, cls = handlers[event.type]
            state.handle(handler, cls.from_event(event), None)
    return state


def _routes(members: Sequence[Member]) -> dict[str, list[Route]]:
    """Where events of each type go, and the lines that their tags must have."""
    routes: dict[str, list[Route]] = {}
    for member in members:
        lines = tuple(f"\n{tag}\n" for tag in member.item.tags)
        for name, (handler, cls) in shape_of(type(member.state)).handlers.items():
            routes.setdefault(name, []).append((member, handler, cls, lines))
    return routes


@functools.lru_cache  # an application has the same few boundaries in every decision
def refuse_clashes_of(
    where: str, projections: tuple[type[Projection], ...], guard: tuple[type[DomainEvent], ...] = ()
) -> None:
    """Refuse two event classes with one type name, or two kinds of id with one prefix, in one boundary."""
    declared = [shape_of(cls) for cls in projections]
    events = [*guard, *(event for shape in declared for event in shape.events)]
    ids = [kind for event in guard for kind in event_shape(event).tag_kinds]
    refuse_clashes(where, events, [*ids, *(kind for shape in declared for kind in shape.tag_kinds)])


_RETAGS = QueryItem(types=[RETAGGED])
