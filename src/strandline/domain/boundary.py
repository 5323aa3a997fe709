"""Boundaries: the events that a decision depends on, and the states that are folded from them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..append import AppendCondition
from ..errors import InvalidQuery
from ..event import Event, SequencedEvent
from ..names import RETAGGED
from ..query import Query, QueryItem
from ..retag import changes_of
from .clashes import refuse_clashes
from .event import DomainEvent, reader
from .event_shape import event_shape
from .projection import Projection
from .shape import shape_of

Name = tuple[Any, ...]
Route = tuple[
    "Member",
    Callable[..., None],
    bool,
    type[DomainEvent],
    Callable[[SequencedEvent], DomainEvent],
    tuple[str, ...],
]

# States whose heads are no further apart than this are brought up to date by one read.
NEAR = 1_000


class Member:
    """A projection in a boundary: its state, and the head of the read that it is the state of."""

    __slots__ = ("head", "is_kept", "is_own", "item", "name", "shape", "state", "unsaved")

    def __init__(self, state: Projection, head: int = 0, *, is_own: bool = False) -> None:
        self.state = state
        self.name = name_of(state)
        self.shape = shape_of(type(state))
        self.item = self.shape.item(self.name[1:])
        self.head = head
        self.is_own = is_own  # nobody is known to have written to it since our own append
        self.is_kept = False  # somebody else has the state too: it must not change
        self.unsaved = 0  # how many events were folded since the last snapshot

    def twin(self) -> Member:
        """The same, for somebody who goes on from it."""
        twin = object.__new__(Member)
        twin.state, twin.name, twin.shape, twin.item = self.state, self.name, self.shape, self.item
        twin.head, twin.is_own, twin.is_kept, twin.unsaved = self.head, self.is_own, True, self.unsaved
        return twin

    @property
    def guard_item(self) -> QueryItem | None:
        """The events that spoil a decision made with it."""
        return self.item if self.shape.is_guarded_whole else self.state._guard_item()

    def start_again(self) -> None:
        """Forget the state."""
        self.start_with(self.state._fresh(), 0)

    def start_with(self, state: Projection, head: int) -> None:
        """Go on from a state as of a head."""
        self.state, self.head, self.unsaved = state, head, 0
        self.is_own = self.is_kept = False

    def changing_state(self) -> Projection:
        """The state, to be changed."""
        if self.is_kept:
            self.state, self.is_kept = self.state._copy(), False
        return self.state

    def is_misled_by(self, events: Iterable[SequencedEvent], head: int) -> bool:
        """Whether what was folded is no longer what the item means: a retag took or gave one of its tags.

        Also if the log is shorter than what was folded, because it was restored from a backup.
        """
        return self.head > head or any(
            event.type == RETAGGED
            and event.position > self.head
            and any(
                not {*change.removed, *change.added}.isdisjoint(self.item.tags)
                for change in changes_of(event)
            )
            for event in events
        )


def name_of(projection: Projection) -> Name:
    """What tells a projection from all others: its class and its key."""
    return type(projection), *projection._key()


class BoundaryOf:
    """The boundary of some projections: what to read, what must not change, and how to fold."""

    def __init__(self, members: Sequence[Member]) -> None:
        if not members:
            raise InvalidQuery(
                "a decision without projections depends on nothing",
                hint="give the command a projection parameter, or use store.append",
            )
        self.members = members
        refuse_clashes_of("a boundary", tuple([member.name[0] for member in members]))

    @classmethod
    def fresh(cls, projections: Iterable[Projection]) -> BoundaryOf:
        """The boundary with nothing folded yet."""
        return cls([Member(projection._fresh()) for projection in projections])

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
        guarded = [(member.guard_item, member.head) for member in self.members]
        return nothing_newer((item, head) for item, head in guarded if item is not None)


def nothing_newer(guarded: Iterable[tuple[QueryItem, int]]) -> AppendCondition | None:
    """No event of an item is newer than its head; None if there are no items.

    Each item is a part of its own: a retag that takes an event out of one item and into another leaves what
    they find together as it is, but not what is folded from each.
    """
    parts = [AppendCondition(Query.of(item), head) for item, head in guarded]
    return AppendCondition.all_of(*parts) if parts else None


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


def fold(members: Sequence[Member], events: Sequence[SequencedEvent]) -> None:
    """Take the events of the members' items into those states whose own item they match, unless they have them."""
    routes = _routes(members) if events else {}
    for event in events:
        going = routes.get(event.type, ())
        # An event that only one of them can have asked for need not be looked at.
        tags = f"\n{event.raw_tags}\n" if len(going) > 1 else None
        decoded: DomainEvent | None = None
        for member, handle, takes_recorded, cls, read, lines in going:
            if event.position <= member.head or (tags and not _has_all(tags, lines)):
                continue
            if decoded.__class__ is not cls:
                decoded = read(event)
            if takes_recorded:
                handle(decoded, event)
            else:
                handle(decoded)
            member.unsaved += 1


def _has_all(tags: str, lines: tuple[str, ...]) -> bool:
    for line in lines:  # noqa: SIM110  (a generator would take longer than the rest)
        if line not in tags:
            return False
    return True


def advanced(member: Member, events: Sequence[Event], head: int) -> Member | None:
    """The member after an own append of these events up to `head`; None if that takes a look at the log."""
    handlers, tags = member.shape.handlers, member.item.tags
    mine = [event for event in events if event.type in handlers and all(tag in event.tags for tag in tags)]
    if any(handlers[event.type][0].takes_recorded for event in mine):
        return None
    after = member.twin()
    after.head, after.is_own, after.unsaved = head, True, member.unsaved + len(mine)
    if mine:
        state = member.state
        after.state = state = state._fresh() if state._last_only else state._copy()
        for event in mine[-1:] if state._last_only else mine:
            handler, cls = handlers[event.type]
            getattr(state, handler.name)(cls.from_event(event))
    return after


def _routes(members: Sequence[Member]) -> dict[str, list[Route]]:
    """Where events of each type go, and the lines that their tags must have."""
    routes: dict[str, list[Route]] = {}
    for member in members:
        state = member.changing_state()
        lines = tuple(f"\n{tag}\n" for tag in member.item.tags)
        for name, (handler, cls) in member.shape.handlers.items():
            method = getattr(state, handler.name)
            route = (member, method, handler.takes_recorded, cls, reader(cls), lines)
            routes.setdefault(name, []).append(route)
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
