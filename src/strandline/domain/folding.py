"""Folding many events into the states of many keys of projections: what is worked out once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product

from ..event import SequencedEvent
from .event import DomainEvent, reader
from .projection import Projection
from .shape import shape_of

Key = tuple[str, ...]
"""The values of a projection's key fields."""
Reader = Callable[[SequencedEvent], DomainEvent]

_new = str.__new__  # what a TagId's own looks at is known: a text that is part of a tag


class Fold:
    """How events become states of a projection."""

    def __init__(self, projection: type[Projection]) -> None:
        shape = shape_of(projection)
        self.projection = projection
        self.types: Sequence[str] = sorted(shape.handlers)
        self.prefixes = [f"{kind.prefix}:" for _, kind in shape.key]
        self._shape = shape
        self.is_last_only = projection._last_only
        self.sees_recorded = shape.sees_recorded
        self._routes: dict[str, tuple[Callable[..., None], bool, Reader]] = {}
        self.looks_at = set[str]()
        for name, (handler, cls) in shape.handlers.items():
            handle = getattr(projection, handler.name)
            looks = not handler.is_blind(handle)
            self._routes[name] = (handle, handler.takes_recorded, reader(cls, looks=looks))
            if looks:
                self.looks_at.add(name)
        self.classes = {name: cls for name, (_, cls) in shape.handlers.items()}

    def handlers(self, classes: Mapping[str, type[DomainEvent]]) -> dict[str, Callable[..., None] | None]:
        """What takes a state and a typed event of such a class, by type; None where it takes `apply`."""
        return {
            name: None if takes_recorded or classes.get(name) is not self.classes[name] else handle
            for name, (handle, takes_recorded, _) in self._routes.items()
        }

    def state(self, key: Key) -> Projection:
        """The state of a key of texts before its first event, with less ado than the class makes of it."""
        state = object.__new__(self.projection)
        shape = self._shape
        shape.fill(state, tuple([_new(kind, value) for kind, value in zip(shape.kinds, key, strict=True)]))
        return state

    def keys(self, tags: Iterable[str]) -> Iterable[Key]:
        """The keys whose tags are all among these."""
        return keys_among(tags, self.prefixes)

    def apply(self, state: Projection, event: SequencedEvent) -> None:
        """Take an event that belongs to it into a state."""
        handle, takes_recorded, read = self._routes[event.type]
        try:
            if takes_recorded:
                handle(state, read(event), event)
            else:
                handle(state, read(event))
        except Exception as error:
            note_where(error, self.projection, event)
            raise


def note_where(error: Exception, projection: type[Projection], event: SequencedEvent) -> None:
    """Let an error say, once, which event could not be taken."""
    note = f"while {projection.__name__} took event {event.position}, a {event.type}"
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def keys_among(tags: Iterable[str], prefixes: Sequence[str]) -> Iterable[Key]:
    """The keys that tags with these prefixes make."""
    listed = tuple(tags)
    return product(
        *(
            [tag[len(prefix) :] for tag in listed if tag.startswith(prefix) and len(tag) > len(prefix)]
            for prefix in prefixes
        )
    )


def read_all(events: Iterable[SequencedEvent], readers: Mapping[str, Reader]) -> list[DomainEvent | None]:
    """The typed forms of events; None where there is no reader, or it fails: `Fold.apply` tells why."""
    typed: list[DomainEvent | None] = []
    for event in events:
        read = readers.get(event.type)
        try:
            typed.append(None if read is None else read(event))
        except Exception:  # noqa: BLE001
            typed.append(None)
    return typed
