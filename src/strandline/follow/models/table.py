"""The SQL of a read model: its table, rows by key, and questions to it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

from ...domain.folding import Key
from ...domain.projection import Projection
from ...engine import Engine
from ...engine.following import Transaction
from ...errors import InvalidInput
from .columns import LONGEST_IDENTIFIER, Columns, identifier
from .kinds import Dialect

Rows = dict[Key, tuple[Projection, int]]
SHADOW = "__new"
KEYS_AT_ONCE = 1_000

_ORDERS = {"": "", "asc": " asc", "desc": " desc"}


def dialect_of(engine: Engine) -> Dialect:
    """The language of the database, if there is one."""
    if engine.name == "sqlite":
        return "sqlite"
    if engine.name == "postgres":
        return "postgres"
    if engine.is_far:
        raise InvalidInput(
            "a read model needs a database, and that of the server is not yours",
            hint='name one of your own: model.run(store, into="local.db")',
        )
    raise InvalidInput(
        "a store in memory has no database, so it has no table for a read model",
        hint='use store.project there, or connect("file.db")',
    )


def table_name(name: object) -> str:
    """The name of a table, which the shadow's name must fit after, and SQL is to know without quotes."""
    quoted = identifier(name, "table", LONGEST_IDENTIFIER - len(SHADOW))
    if not isinstance(name, str) or name != name.lower() or name.startswith(("sqlite_", "pg_")):
        raise InvalidInput(
            f"{name!r:.80} cannot be the name of a table", hint="use small letters: courses, open_orders"
        )
    return quoted


class Table:
    """A table of the states of a projection."""

    def __init__(self, name: str, projection: type[Projection], dialect: Dialect) -> None:
        self.name = name
        self.columns = Columns(projection, dialect)
        self._quoted = identifier(name, "table")
        self._mark = "?" if dialect == "sqlite" else "%s"
        self._exists = (
            "select 1 from sqlite_schema where lower(name) = ?"
            if dialect == "sqlite"
            else "select 1 where to_regclass(%s) is not null"
        )
        names, keys = self.columns.names, ", ".join(self.columns.key)
        marks = ", ".join([self._mark] * len(names))
        changes = ", ".join(f"{name} = excluded.{name}" for name in names[len(self.columns.key) :])
        self._insert = f"insert into {self._quoted} ({', '.join(names)}) values ({marks})"
        self._upsert = f"{self._insert} on conflict ({keys}) do update set {changes}"
        self._select = f"select {self.columns.selected} from {self._quoted}"
        equal = " and ".join(f"{key} = {self._mark}" for key in self.columns.key)
        self._delete = f"delete from {self._quoted} where {equal}"
        self._select_one = f"{self._select} where {equal}"

    def exists(self, tx: Transaction) -> bool:
        """Whether there is a table of that name."""
        return bool(tx.execute(self._exists, (self.name,)))

    def is_missing(self, engine: Engine) -> bool:
        """Whether there is no table of that name, outside a transaction."""
        return not engine.rows(self._exists, (self.name,))

    def create(self, tx: Transaction) -> None:
        """Make it."""
        parts = ", ".join([*self.columns.definitions, f"primary key ({', '.join(self.columns.key)})"])
        tx.execute(f"create table {self._quoted} ({parts})")

    def drop(self, tx: Transaction) -> None:
        """Remove it, if it is there."""
        tx.execute(f"drop table if exists {self._quoted}")

    def rename(self, tx: Transaction, other: Table) -> None:
        """Let it take the name of another."""
        tx.execute(f"alter table {self._quoted} rename to {other._quoted}")

    def load(self, tx: Transaction, keys: Collection[Key]) -> Rows:
        """The rows of these keys."""
        found: Rows = {}
        listed, width = list(keys), len(self.columns.key)
        for start in range(0, len(listed), KEYS_AT_ONCE):
            part = listed[start : start + KEYS_AT_ONCE]
            one = f"({', '.join([self._mark] * width)})"
            where = f"({', '.join(self.columns.key)}) in (values {', '.join([one] * len(part))})"
            for row in tx.execute(f"{self._select} where {where}", [value for key in part for value in key]):
                found[tuple(row[:width])] = self.columns.state_of(row)
        return found

    def save(self, tx: Transaction, states: Sequence[tuple[Projection, int]]) -> None:
        """Write rows, instead of those of the same keys."""
        if states:
            tx.execute_many(self._upsert, [self.columns.row(state, position) for state, position in states])

    def insert(self, tx: Transaction, rows: Sequence[Sequence[Any]]) -> None:
        """Write rows of new keys, as `columns` makes them."""
        tx.execute_many(self._insert, rows)

    def remove(self, tx: Transaction, keys: Collection[Key]) -> None:
        """Remove rows."""
        if keys:
            tx.execute_many(self._delete, list(keys))

    def get(self, engine: Engine, key: Key) -> Projection | None:
        """The state of a key."""
        return next((self.columns.state_of(row)[0] for row in engine.rows(self._select_one, key)), None)

    def find(
        self, engine: Engine, where: str, parameters: Sequence[Any], order_by: str, limit: int | None
    ) -> list[Projection]:
        """The states for which an expression holds."""
        sql = self._select
        if where:
            sql += f" where ({where}\n)"
        if order_by:
            sql += f" order by {', '.join(map(self._order, order_by.split(',')))}"
        if limit is not None:
            if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
                raise InvalidInput(f"limit is a whole number from 0, not {limit!r:.40}", hint="leave it out")
            sql += f" limit {limit:d}"
        return [self.columns.state_of(row)[0] for row in engine.rows(sql, parameters)]

    def _order(self, text: str) -> str:
        name, _, direction = text.strip().partition(" ")
        quoted = identifier(name, "column")
        if quoted not in self.columns.names or direction.strip().lower() not in _ORDERS:
            raise InvalidInput(
                f"order_by names columns, not {text.strip()!r:.80}",
                hint='write order_by="capacity desc, title"',
            )
        return quoted + _ORDERS[direction.strip().lower()]


@cache
def table_of(name: str, projection: Any, dialect: Dialect) -> Table:
    """The table, worked out once."""
    return Table(name, projection, dialect)
