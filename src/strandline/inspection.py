"""`store.inspect`: questions about a log that a decision does not ask, but people and tools do."""

from __future__ import annotations

from typing import Protocol

from .append import RecordedAppend, check_position
from .engine import Engine, Usage
from .errors import InvalidInput, NotFound
from .names import check_name
from .reading import check_limit

NAMES = 100
MOST_NAMES = 10_000


class Inspected(Protocol):
    """What an inspection needs of a store."""

    engine: Engine

    def check_usable(self) -> None:
        """Raise if the store cannot be used right now."""
        ...


class Inspection:
    """Looks at the log of a store. It has no state of its own."""

    def __init__(self, store: Inspected) -> None:
        self._store = store

    def types(self, prefix: str = "", *, after: str = "", limit: int = NAMES) -> list[Usage]:
        """The types of events in the order of their names, with how many events have each, the first and the last.

        `$retagged`, the type of the store's own events, is among them. To see the next page, pass the last name of this
        one as `after`.
        """
        self._store.check_usable()
        return self._store.engine.types_page(*_page(prefix, after, limit))

    def tags(self, prefix: str = "", *, after: str = "", limit: int = NAMES) -> list[Usage]:
        """The tags that events carry now in the order of their names, with how many events carry each.

        To see the next page, pass the last name of this one as `after`.
        """
        self._store.check_usable()
        return self._store.engine.tags_page(*_page(prefix, after, limit))

    def recorded(self, position: int) -> RecordedAppend:
        """The append that wrote the event at a position, with its condition; `NotFound` if there is no such event."""
        self._store.check_usable()
        append = self._store.engine.append_holding(check_position(position, "position"))
        if append is None:
            raise NotFound(
                f"there is no event at position {position}", hint="positions are 1 to store.head()"
            )
        return append


def _page(prefix: str, after: str, limit: int) -> tuple[str, str, int]:
    size = check_limit(limit)
    if size is None:
        raise InvalidInput("limit is a whole number from 1, not None", hint="leave it out for 100")
    return _name(prefix, "prefix"), _name(after, "name"), min(size, MOST_NAMES)


def _name(value: str, kind: str) -> str:
    return value if value == "" else check_name(value, kind, InvalidInput)
