"""Where a staged event comes from: what errors name, and what the id of an event without one is made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol
from urllib.parse import unquote
from uuid import NAMESPACE_URL, UUID, uuid5

from ...event import Event
from ..staging.piece import Piece
from .columns import events_of


class Place(Protocol):
    """Where rows come from."""

    def place(self, row: int) -> str:
        """A row, as errors name it."""
        ...


class Staged(NamedTuple):
    """An event to append."""

    event: Event
    row: int
    origin: Place


class Origin:
    """A piece at its place in the source: after `rows` of the same file, and after `events` of all pieces."""

    def __init__(self, piece: Piece, rows: int, events: int, name: str | None) -> None:
        self.piece = piece
        self.rows = rows
        self._events = events
        self._is_named = name is not None
        self._namespace = uuid5(NAMESPACE_URL, piece.file if name is None else name)

    def place(self, row: int) -> str:
        """A row, as errors name it."""
        path = unquote(self.piece.file.removeprefix("file://"))
        return f"{path} line {self.rows + row:,}" if path else f"row {self.rows + row:,}"

    def events(self) -> Iterator[Staged]:
        """The events; who has no id gets one that is the same whenever this source is imported."""
        number = self._events
        for batch in self.piece.batches():
            for one in events_of(batch):
                number += 1
                if not one.has_id:
                    object.__setattr__(one.event, "raw_id", self._id(one.row, number).bytes)
                yield Staged(one.event, one.row, self)

    def _id(self, row: int, number: int) -> UUID:
        return uuid5(self._namespace, str(number if self._is_named else self.rows + row))


def origins(pieces: Sequence[Piece], name: str | None) -> list[Origin]:
    """The pieces, which are in order, at their places."""
    placed: list[Origin] = []
    rows: dict[object, int] = {}
    events = 0
    for piece in pieces:
        file = piece.first[:-1]
        placed.append(Origin(piece, rows.get(file, 0), events, name))
        rows[file] = rows.get(file, 0) + piece.rows
        events += piece.staged
    return placed
