"""The read models of a log, as the log itself knows them: without their projections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ...engine import Engine
from ...engine.following import FollowerRow
from ..options import MAKE_ANEW, query_and_version
from ..status import FollowerStatus, status_of
from .columns import POSITION, identifier
from .making import MODEL, REBUILD
from .table import dialect_of

_COLUMNS = {
    "sqlite": "select name, lower(type) from pragma_table_info(?)",
    "postgres": "select attname::text, format_type(atttypid, atttypmod) from pg_attribute"
    " where attrelid = to_regclass(%s) and attnum > 0 and not attisdropped order by attnum",
}


class ModelStatus(msgspec.Struct, frozen=True):
    """How a read model is: its follower, its rows (None: there is no table), and the rebuild that was begun, if any."""

    table: str
    follower: FollowerStatus
    rows: int | None
    rebuild: FollowerStatus | None


def models_of(engine: Engine) -> list[ModelStatus]:
    """How every read model of a log is."""
    rows = {row.name: row for row in engine.followers() if query_and_version(row.query)[1]}
    tables = {name.removeprefix(kind) for name in rows for kind in (MODEL, REBUILD) if name.startswith(kind)}
    return [
        _status(engine, table, rows.get(f"{MODEL}{table}"), rows.get(f"{REBUILD}{table}"))
        for table in sorted(tables)
    ]


def columns_of(engine: Engine, table: str) -> list[tuple[str, str]]:
    """The columns of a table and their types; none if there is no such table."""
    return [(name, kind) for name, kind in engine.rows(_COLUMNS[dialect_of(engine)], (table,))]


def newest_rows(engine: Engine, table: str, limit: int) -> Sequence[Sequence[Any]]:
    """The rows that changed last."""
    return engine.rows(
        f'select * from {identifier(table, "table")} order by "{POSITION}" desc, 1 limit {limit:d}'
    )


def _status(engine: Engine, table: str, live: FollowerRow | None, shadow: FollowerRow | None) -> ModelStatus:
    row = live or FollowerRow(f"{MODEL}{table}", "", 0, 0, 0)  # it is made by its first rebuild
    rows = count_rows(engine, table) if columns_of(engine, table) else None
    if live is not None and rows is None:
        row = msgspec.structs.replace(row, error=f"its table is gone: {MAKE_ANEW}")
    return ModelStatus(
        table, status_of(engine, row), rows, None if shadow is None else status_of(engine, shadow)
    )


def count_rows(engine: Engine, table: str) -> int:
    """How many rows a table has."""
    ((count,),) = engine.rows(f"select count(*) from {identifier(table, 'table')}")
    return int(count)
