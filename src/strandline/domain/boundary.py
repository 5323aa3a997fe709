"""Boundaries: the events that a decision depends on, and the state that is folded from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..append import AppendCondition
from ..errors import InvalidInput, InvalidQuery
from ..event import SequencedEvent
from ..query import Query, QueryItem
from .event import DomainEvent, tag_id_classes
from .projection import Handler, Projection, shape_of

Route = tuple[Projection, Handler, type[DomainEvent], tuple[str, ...]]


class BoundaryOf:
    """The boundary of some projections: what to read, what must not change, and how to fold."""

    def __init__(self, projections: Sequence[Projection]) -> None:
        if not projections:
            raise InvalidQuery(
                "a decision without projections depends on nothing",
                hint="give the command a projection parameter, or use store.append",
            )
        self.states = tuple(projection.fresh() for projection in projections)
        refuse_clashes(projections)

    @property
    def read_query(self) -> Query | None:
        """What is read in full: the items of those that need more than their newest event."""
        items = [state.item() for state in self.states if not state.last_only]
        return Query(items) if items else None

    @property
    def guarded(self) -> Query | None:
        """What must not change: without the events that do not conflict."""
        items = [item for item in (state.guard_item() for state in self.states) if item is not None]
        return Query(items) if items else None

    def condition(self, head: int) -> AppendCondition | None:
        """Nothing that matters is newer than the read."""
        guarded = self.guarded
        return None if guarded is None else AppendCondition(guarded, head)

    def fold(self, events: Iterable[SequencedEvent]) -> None:
        """Take the events into those projections whose own item they match."""
        routes, needs_tags = self._routes([state for state in self.states if not state.last_only])
        for event in events:
            decoded: dict[type[DomainEvent], DomainEvent] = {}
            tags = event.tags if needs_tags else ()
            for state, handler, cls, wanted in routes.get(event.type, ()):
                if needs_tags and not all(tag in tags for tag in wanted):
                    continue
                typed = decoded.get(cls)
                if typed is None:
                    typed = decoded[cls] = cls.from_event(event)
                state.handle(handler, typed, event)

    @staticmethod
    def _routes(states: Sequence[Projection]) -> tuple[dict[str, list[Route]], bool]:
        """Where events of each type go, and whether that depends on their tags."""
        routes: dict[str, list[Route]] = {}
        for state in states:
            tags = tuple(value.tag for value in state.key())
            for name, (handler, cls) in shape_of(type(state)).handlers.items():
                routes.setdefault(name, []).append((state, handler, cls, tags))
        return routes, len(states) > 1


def last_items(states: Iterable[Projection]) -> list[tuple[Projection, QueryItem]]:
    """The projections that need only their newest event, with the item to look for."""
    return [(state, state.item()) for state in states if state.last_only]


def refuse_clashes(projections: Iterable[Projection]) -> None:
    """Refuse two event classes with one type name, or two kinds of id with one prefix, in one boundary."""
    events: dict[str, type[DomainEvent]] = {}
    prefixes: dict[str, type[Any]] = {}
    for cls in dict.fromkeys(type(projection) for projection in projections):
        shape = shape_of(cls)
        for name, (_, event) in shape.handlers.items():
            _put(events, name, event, f"the event type {name!r}")
            for kind in tag_id_classes(event):
                _put(prefixes, kind.prefix, kind, f"the tag prefix {kind.prefix!r}")
        for _, kind in shape.key:
            _put(prefixes, kind.prefix, kind, f"the tag prefix {kind.prefix!r}")


def _put(known: dict[str, type[Any]], name: str, cls: type[Any], what: str) -> None:
    other = known.setdefault(name, cls)
    # A class that was defined again, in a notebook or by a reload, is the same one.
    if other is not cls and (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
        raise InvalidInput(
            f"{other.__qualname__} and {cls.__qualname__} both have {what}",
            hint=f"give one of them another: class {cls.__name__}(…, type=… or prefix=…)",
        )
