"""Folding many events into the states of many keys of one projection: what is worked out once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any

from ..event import SequencedEvent
from .event import reader
from .projection import Projection
from .shape import shape_of

Key = tuple[str, ...]
"""The values of a projection's key fields."""


class Fold:
    """How events become states of a projection."""

    def __init__(self, projection: type[Projection]) -> None:
        shape = shape_of(projection)
        self.projection = projection
        self.types: Sequence[str] = sorted(shape.handlers)
        self.prefixes = [f"{kind.prefix}:" for _, kind in shape.key]
        self.is_last_only = projection._last_only
        self.sees_recorded = shape.sees_recorded
        self._routes: dict[str, tuple[Callable[..., None], bool, Callable[[SequencedEvent], Any]]] = {
            name: (getattr(projection, handler.name), handler.takes_recorded, reader(cls))
            for name, (handler, cls) in shape.handlers.items()
        }

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
            error.add_note(f"while {type(state).__name__} took event {event.position}, a {event.type}")
            raise


def keys_among(tags: Iterable[str], prefixes: Sequence[str]) -> Iterable[Key]:
    """The keys that tags with these prefixes make."""
    listed = tuple(tags)
    return product(
        *(
            [tag[len(prefix) :] for tag in listed if tag.startswith(prefix) and len(tag) > len(prefix)]
            for prefix in prefixes
        )
    )
