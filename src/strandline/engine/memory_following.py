"""Followers of the memory engine: what must hold of rows, dead letters and transactions, in plain Python."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import msgspec

from ..errors import InvalidInput
from .following import DeadLetter, FollowerRow, LeaseUse, transaction_is_over

LOOK_AGAIN_SECONDS = 0.001


class Kept:
    """Rows and letters at one moment."""

    def __init__(self, rows: dict[str, FollowerRow], letters: dict[tuple[str, int], DeadLetter]) -> None:
        self.rows = rows
        self.letters = letters

    def copy(self) -> Kept:
        """To be changed by a transaction."""
        return Kept(dict(self.rows), dict(self.letters))

    def followers(self, name: str | None) -> list[FollowerRow]:
        """See `Engine.followers`."""
        return [row for key, row in sorted(self.rows.items()) if name is None or key == name]

    def dead_letters(self, follower: str) -> list[DeadLetter]:
        """See `Engine.dead_letters`."""
        return [letter for (name, _), letter in sorted(self.letters.items()) if name == follower]


class MemoryFollowing:
    """What is kept, and whose turn it is to change it."""

    def __init__(self) -> None:
        self.kept = Kept({}, {})
        self.turn: dict[str, MemoryTransaction] = {}  # the transaction whose turn it is is its only value


class MemoryTransaction:
    """One at a time: works on a copy, which takes the place of what is kept."""

    def __init__(self, following: MemoryFollowing, now: Callable[[], int]) -> None:
        self._following = following
        self._kept: Kept | None = None
        self.now = now

    def begin(self) -> None:
        # A lock would not say whose it is if an interrupt came right after it was taken.
        while self._following.turn.setdefault("now", self) is not self:
            time.sleep(LOOK_AGAIN_SECONDS)
        self._kept = self._following.kept.copy()

    def commit(self) -> None:
        self._following.kept = self._changing

    def end(self) -> None:
        self._kept = None
        if self._following.turn.get("now") is self:
            self._following.turn.clear()

    @property
    def _changing(self) -> Kept:
        if self._kept is None:
            raise transaction_is_over()
        return self._kept

    @property
    def connection(self) -> NoReturn:
        raise no_tables()

    def execute(self, sql: str, parameters: Any = ()) -> list[Any]:
        raise no_tables()

    def execute_many(self, sql: str, rows: Sequence[Any]) -> None:
        raise no_tables()

    def create(self, row: FollowerRow) -> None:
        self._changing.rows.setdefault(row.name, row)

    def find(self, name: str) -> FollowerRow | None:
        return self._changing.rows.get(name)

    def save(self, row: FollowerRow) -> None:
        self._changing.rows[row.name] = row

    def forget(self, name: str) -> None:
        kept = self._changing
        kept.rows.pop(name, None)
        kept.letters = {place: letter for place, letter in kept.letters.items() if place[0] != name}

    def use_leases(self, uses: Sequence[LeaseUse]) -> set[str]:
        renewed = set()
        for use in uses:
            row = self.find(use.name)
            if row is not None and row.epoch == use.epoch and row.owner:
                position, judged = max(row.position, use.position), max(row.judged, use.judged)
                self.save(
                    msgspec.structs.replace(row, renewed_at=self.now(), position=position, judged=judged)
                )
                renewed.add(use.name)
        return renewed

    def find_letter(self, follower: str, position: int) -> DeadLetter | None:
        return self._changing.letters.get((follower, position))

    def save_letter(self, letter: DeadLetter) -> None:
        self._changing.letters[letter.follower, letter.position] = letter

    def remove_letter(self, follower: str, position: int) -> None:
        self._changing.letters.pop((follower, position), None)


def no_tables() -> InvalidInput:
    """The error for SQL that nobody can run."""
    return InvalidInput(
        "a store in memory has no database, so a handler has no SQL there",
        hint='keep the state in Python, or connect("file.db")',
    )
