"""Boundaries: the events that a decision depends on, and the states that are folded from them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence

from ..append import AppendCondition
from ..errors import InvalidQuery
from ..event import Event, SequencedEvent, split_tags
from ..names import RETAGGED
from ..query import Query, QueryItem
from ..tag_id import TagId
from .clashes import refuse_clashes
from .event import DomainEvent, unseen
from .event_shape import event_shape
from .member import Member
from .projection import Projection
from .shape import shape_of
from .usual import native

Route = tuple[
    "Member",
    Callable[..., None],
    bool,
    type[DomainEvent] | None,  # if others may be handed the same event
    Callable[[SequencedEvent], DomainEvent],
    Callable[[bytes], DomainEvent] | None,
    tuple[str, ...],
    int,  # the head, up to which it has its events
    bool,  # whether it counts them
]

Written = tuple[Event, DomainEvent | None]
"""An event that was written, and what a reader makes of it, if that is known."""

# States whose heads are no further apart than this are brought up to date by one read.
NEAR = 1_000


def begin(projections: list[Projection]) -> list[Member]:
    """The members that have the keys of projections, and nothing folded yet."""
    if not projections:
        raise InvalidQuery(
            "a decision without projections depends on nothing",
            hint="give it a projection, of which an empty list has none, or use store.append",
        )
    usual: list[Member] | None = None if native is None else native.begin(projections)
    return [Member.begin(projection) for projection in projections] if usual is None else usual


def begin_by_hand(projections: Sequence[Projection]) -> list[Member]:
    """Like `begin`, of projections that were not named by a command, whose clashes are judged when it is defined."""
    members = begin([*projections])
    refuse_clashes_of("a boundary", tuple([member.shape.projection for member in members]))
    return members


def read_query(members: Iterable[Member]) -> Query:
    """The events that the states are folded from."""
    return Query(member.item for member in members)


def unchanged(members: list[Member]) -> AppendCondition | None:
    """The condition that nothing that matters is newer than the reads."""
    if len({member.shape for member in members}) < len(members):  # then one may be there twice
        members = list({(member.name, member.head): member for member in members}.values())
    return nothing_newer(
        [(member.query if member.shape.is_guarded_whole else member.guard, member.head) for member in members]
    )


def nothing_newer(guarded: Iterable[tuple[Query | None, int]]) -> AppendCondition | None:
    """Return the condition that no event of a query is newer than its head, None if there are no queries. No two are the same."""
    parts = tuple([AppendCondition(query, head) for query, head in guarded if query is not None])
    return AppendCondition.of_parts(parts) if parts else None


def near(members: Sequence[Member]) -> tuple[int, list[Member], list[Member]]:
    """The lowest head; those with heads near it, which one read can serve; and the others."""
    heads = [member.head for member in members]
    lowest = min(heads)
    if max(heads) <= lowest + NEAR:
        return lowest, [*members], []
    group = [member for member in members if member.head <= lowest + NEAR]
    return lowest, group, [member for member in members if member.head > lowest + NEAR]


def query_of(members: Sequence[Member]) -> Query:
    """Return what to read for the members. Those that go on from a state need the retags since, too."""
    items = [member.item for member in members]
    for member in members:
        if member.head:
            items.append(_RETAGS)
            break
    return Query(items)


def fold(members: list[Member], events: list[SequencedEvent]) -> None:
    """Take the events of the members' items into those states whose own item they match, unless they have them."""
    if native is not None:
        native.fold(members, events, unseen)
    elif events:
        _take_events(events, _routes(members))
        for member in members:
            member.check_key()


def _take_events(events: Sequence[SequencedEvent], routes: dict[str, list[Route]]) -> None:
    for event in events:
        going = routes.get(event.type, ())
        # An event that only one of them can have asked for need not be looked at.
        tags = split_tags(event.raw_tags) if len(going) > 1 else None
        decoded: DomainEvent | None = None
        for member, handle, takes_recorded, cls, read, _, wanted, head, counts in going:
            if event.position <= head or (tags is not None and not set(wanted).issubset(tags)):
                continue
            if decoded.__class__ is not cls:
                decoded = read(event)
            try:
                if takes_recorded:
                    handle(decoded, event)
                else:
                    handle(decoded)
            except Exception as error:
                error.add_note(
                    f"while {type(member.state).__name__} took event {event.position}, a {event.type}"
                )
                raise
            if counts:
                member.unsaved += 1


def carries_all(carried: tuple[str, ...], tags: tuple[str, ...]) -> bool:
    """Whether all the tags are among those that an event carries."""
    for tag in tags:  # noqa: SIM110  (`all` takes longer than the rest)
        if tag not in carried:
            return False
    return True


def advanced(member: Member, events: list[Written], head: int) -> Member:
    """The member after an own append of these events up to `head`."""
    if native is not None:
        return native.advanced(member, events, head)  # type: ignore[no-any-return]
    handlers, tags = member.shape.handlers, member.item.tags
    mine = [
        (event, read) for event, read in events if event.type in handlers and carries_all(event.tags, tags)
    ]
    after = member.twin()
    after.head, after.is_own, after.unsaved = head, True, member.unsaved + len(mine)
    if mine:
        state = member.state
        after.state = state = state._fresh() if state._last_only else state._copy()
        for event, read in mine[-1:] if state._last_only else mine:
            handler, cls = handlers[event.type]
            getattr(state, handler.name)(read if type(read) is cls else cls.from_event(event))
        after.check_key()
    return after


def _routes(members: Sequence[Member]) -> dict[str, list[Route]]:
    """Where events of each type go, and the tags that they must have."""
    routes: dict[str, list[Route]] = {}
    for member in members:
        state = member.changing_state()
        member.is_own = False  # what comes now is not what our own append brought
        tags, head = member.item.tags, member.head
        counts = state._snapshot_every is not None
        for name, handler, seen, not_seen in member.shape.ways:
            handle = getattr(state, handler.name)
            reading = not_seen if handler.is_blind(handle) else seen
            route = (member, handle, handler.takes_recorded, *reading, tags, head, counts)
            if name in routes:
                routes[name].append(route)
            else:
                routes[name] = [route]
    return routes


@functools.lru_cache  # an application has the same few boundaries in every decision
def refuse_clashes_of(
    where: str,
    projections: tuple[type[Projection], ...],
    guard: tuple[type[DomainEvent], ...] = (),
    ids: tuple[type[TagId], ...] = (),
) -> None:
    """Refuse two event classes with one type name, or two kinds of id with one prefix, in one boundary."""
    declared = [shape_of(cls) for cls in projections]
    events = [*guard, *(event for shape in declared for event in shape.events)]
    own_ids = [kind for event in guard for kind in event_shape(event).tag_kinds]
    refuse_clashes(where, events, [*ids, *own_ids, *(kind for shape in declared for kind in shape.tag_kinds)])


_RETAGS = QueryItem(types=[RETAGGED])
