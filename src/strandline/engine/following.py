"""What engines keep for followers: their rows, their dead letters, and the transaction in which a handler works."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

import msgspec

from ..errors import InvalidInput
from ..event import from_microseconds


class FollowerRow(msgspec.Struct, frozen=True):
    """A follower as the log keeps it.

    What it delivered are the events of its query in `(start, position]`, with their tags as of `judged`. Whoever
    runs it holds its lease: `owner`, since `epoch` grew, and until `lease` microseconds after `renewed_at`.
    """

    name: str
    query: str
    start: int
    position: int
    judged: int
    epoch: int = 0
    owner: str = ""
    renewed_at: int = 0
    lease: int = 0
    is_paused: bool = False
    error: str = ""

    def is_held(self, now: int) -> bool:
        """Whether somebody runs it. A renewal from the far future is none: a clock went back since."""
        return bool(self.owner) and abs(now - self.renewed_at) < self.lease


class LeaseUse(msgspec.Struct, frozen=True):
    """What the holder of a lease tells from time to time: it lives, and it has looked at everything up to here."""

    name: str
    epoch: int
    position: int
    judged: int


class DeadLetter(msgspec.Struct, frozen=True):
    """An event that a follower gave up on: where it is, what the handler raised last, and how often it was tried."""

    follower: str
    position: int
    error: str
    traceback: str
    attempts: int
    raw_time: int

    @property
    def time(self) -> datetime:
        """When the follower gave up, by the clock of the log."""
        return from_microseconds(self.raw_time)


class Transaction(Protocol):
    """A transaction of the log's own database. What a handler does in it and its checkpoint commit together."""

    def begin(self) -> None:
        """Begin; waits for its turn if need be."""
        ...

    def commit(self) -> None:
        """Make everything that was done in it last."""
        ...

    def end(self) -> None:
        """Let go of everything; what was not committed is undone. Harmless again."""
        ...

    @property
    def connection(self) -> Any:
        """The driver's own connection (apsw, psycopg), to be used until the handler returns."""
        ...

    def execute(self, sql: str, parameters: Any = ()) -> list[Any]:
        """Run a statement, with the placeholders of the database; returns its rows."""
        ...

    def execute_many(self, sql: str, rows: Sequence[Any]) -> None:
        """Run a statement for each row of parameters."""
        ...

    def now(self) -> int:
        """The time by the clock of the log, in microseconds since 1970."""
        ...

    def create(self, row: FollowerRow) -> None:
        """Keep a new follower, unless there is one of that name."""
        ...

    def find(self, name: str) -> FollowerRow | None:
        """The follower, which nobody else changes until this transaction ends."""
        ...

    def save(self, row: FollowerRow) -> None:
        """Change what is kept of a follower."""
        ...

    def forget(self, name: str) -> None:
        """Keep nothing of a follower, its dead letters included."""
        ...

    def use_leases(self, uses: Sequence[LeaseUse]) -> set[str]:
        """Renew leases that are still held and move checkpoints forward; returns the names of those followers.

        One that another transaction works on is left out, rather than waited for.
        """
        ...

    def find_letter(self, follower: str, position: int) -> DeadLetter | None:
        """A dead letter, which nobody else changes until this transaction ends."""
        ...

    def save_letter(self, letter: DeadLetter) -> None:
        """Keep a dead letter, instead of one for the same event."""
        ...

    def remove_letter(self, follower: str, position: int) -> None:
        """Remove a dead letter."""
        ...


def not_answered(said: object) -> InvalidInput:
    """The error for SQL of a user that the database does not take."""
    return InvalidInput(f"the database does not take this query: {said}", hint="correct the SQL")


def transaction_is_over() -> InvalidInput:
    """The error for a handler that keeps its transaction."""
    return InvalidInput(
        "this transaction is over", hint="use tx only inside the handler that it was given to"
    )
