"""How a follower is: as the log knows it, whoever runs it."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..engine import Engine, Span
from ..engine.following import FollowerRow
from ..query import Query

State = Literal["running", "idle", "paused", "waiting", "failed"]


class FollowerStatus(msgspec.Struct, frozen=True):
    """How a follower is.

    `lag` is how many positions its checkpoint is behind the head, `lag_seconds` how old the first event beyond it is.
    `running`: somebody holds its lease; `waiting`: this one would run it, but somebody else does; `idle`: nobody does.
    """

    name: str
    state: State
    position: int
    head: int
    lag: int
    lag_seconds: float
    owner: str
    error: str
    dead_letters: int


def status_of(engine: Engine, row: FollowerRow, *, is_waiting: bool = False) -> FollowerStatus:
    """The status of a follower."""
    page = engine.read_page(Query.all(), Span(row.position), 1)
    now = engine.now()
    waited = (now - page.events[0].raw_recorded_at) / 1e6 if page.events else 0.0
    is_held = row.is_held(now)
    return FollowerStatus(
        name=row.name,
        state=_state(row, is_held=is_held, is_waiting=is_waiting),
        position=row.position,
        head=page.head,
        lag=max(0, page.head - row.position),
        lag_seconds=max(0.0, waited),
        owner=row.owner if is_held else "",
        error=row.error,
        dead_letters=engine.count_dead_letters(row.name),
    )


def _state(row: FollowerRow, *, is_held: bool, is_waiting: bool) -> State:
    if row.is_paused:
        return "paused"
    if is_waiting:
        return "waiting"
    if is_held:
        return "running"
    return "failed" if row.error else "idle"
