"""A projection in a boundary: its state, and what the state is the state of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from ..errors import InvalidInput
from ..event import SequencedEvent
from ..names import RETAGGED
from ..query import Query, QueryItem
from ..retag import changes_of
from ..tag_id import TagId
from .projection import Projection
from .shape import Shape, shape_of
from .usual import native

Name = tuple[Any, ...]
"""The class of a projection, and the texts of its key."""


class Uncopyable(Exception):
    """A state has something in it that cannot be copied, for whatever reason."""


class Member(msgspec.Struct, eq=False):
    """A projection in a boundary: its state, and the head of the read that it is the state of."""

    state: Projection
    key: tuple[TagId, ...]
    shape: Shape
    query: Query
    """The events of the state: one item."""
    item: QueryItem
    head: int = 0
    is_own: bool = False
    """Nobody is known to have written to it since our own append."""
    is_kept: bool = False
    """Somebody else has the state too: it must not change."""
    unsaved: int = 0
    """How many events were folded since the last snapshot."""
    known_name: Name | None = None

    @classmethod
    def begin(cls, projection: Projection) -> Member:
        """The member that has the key of a projection, and nothing folded yet."""
        kind = type(projection)
        shape = shape_of(kind)
        key = shape.key_of(projection)
        state = object.__new__(kind)
        shape.fill(state, key)
        query = shape.query(key)
        return cls(state, key, shape, query, query.items[0])

    @property
    def name(self) -> Name:
        """What tells its projection from all others."""
        if self.known_name is None:
            self.known_name = name_of(self.state)
        return self.known_name

    def twin(self) -> Member:
        """The same, for somebody who goes on from it."""
        twin: Member = self.__copy__()  # type: ignore[attr-defined]  # what `copy` calls, in a fraction of its time
        twin.is_kept = True
        return twin

    @property
    def guard(self) -> Query | None:
        """The events that spoil a decision made with it."""
        if self.shape.is_guarded_whole:
            return self.query
        item = self.shape.guard_item(self.key)
        return None if item is None else Query.of(item)

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
            self.state, self.is_kept = self.copied_state(), False
        return self.state

    def copied_state(self) -> Projection:
        """A copy of the state."""
        try:
            return self.state._copy()
        except Exception as error:
            raise Uncopyable from error

    def is_misled_by(self, events: Iterable[SequencedEvent], head: int) -> bool:
        """Whether what was folded is no longer what the item means: a retag took or gave one of its tags.

        Also if the log is shorter than what was folded, because it was restored from a backup.
        """
        return self.head > head or any(
            event.type == RETAGGED and event.position > self.head and self._is_touched_by(event)
            for event in events
        )

    def _is_touched_by(self, retag: SequencedEvent) -> bool:
        return self.shape.sees_recorded or any(
            not {*change.removed, *change.added}.isdisjoint(self.item.tags) for change in changes_of(retag)
        )

    def check_key(self) -> None:
        """A handler that changes the key would make it the state of something else."""
        if self.shape.key_of(self.state) != self.key:
            check_key(self.state, self.key)


if native is not None:
    native.know_members(Member)


def check_key(state: Projection, key: tuple[Any, ...]) -> None:
    """Raise unless the state has this key still."""
    if state._key() != key:
        raise InvalidInput(
            f"a handler of {type(state).__name__} changed its key {key}",
            hint="the key says which events are folded; keep the new id in a field with a default",
        )


def name_of(projection: Projection) -> Name:
    """What tells a projection from all others: its class and its key."""
    usual: Name | None = None if native is None else native.name_of(projection)
    if usual is not None:
        return usual
    return type(projection), *[str.__str__(value) for value in projection._key()]
