"""Rows on their way into the table of a read model: put in a table beside it by several at once, moved by one."""

from __future__ import annotations

from collections.abc import Collection

from ...engine.following import Transaction
from .columns import identifier
from .table import SHADOW, Table

INCOMING = "__in"
_ATTEMPT = '"attempt id"'  # which no field can be called


class Incoming:
    """The rows for a shadow table on PostgreSQL. Each writer has an id, and only those that succeeded are moved."""

    def __init__(self, shadow: Table) -> None:
        self._shadow = identifier(shadow.name, "table")
        self._quoted = identifier(f"{shadow.name.removesuffix(SHADOW)}{INCOMING}", "table")
        self._definitions = ", ".join([f"{_ATTEMPT} text not null", *shadow.columns.definitions])
        self._names = ", ".join(shadow.columns.names)

    @property
    def copy(self) -> str:
        """The statement that takes rows, each with the id of its writer first."""
        return f"copy {self._quoted} ({_ATTEMPT}, {self._names}) from stdin"

    def create(self, tx: Transaction) -> None:
        """Make it empty, whatever somebody who was killed has left there."""
        self.drop(tx)
        tx.execute(f"create unlogged table {self._quoted} ({self._definitions})")

    def move(self, tx: Transaction, attempts: Collection[str]) -> int:
        """Move the rows of these writers; returns how many there are."""
        moved = tx.execute(
            f"with moved as (insert into {self._shadow} ({self._names}) select {self._names} from {self._quoted}"
            f" where {_ATTEMPT} = any(%s) returning 1) select count(*) from moved",
            (list(attempts),),
        )
        return int(moved[0][0])

    def drop(self, tx: Transaction) -> None:
        """Remove it, if it is there."""
        tx.execute(f"drop table if exists {self._quoted}")
