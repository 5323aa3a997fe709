"""Scans of the file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from ..scan import Types
from .statements import sql

if TYPE_CHECKING:
    from . import SqliteEngine
    from .search import Search

ROWS = 5_000
BYTES = 16 << 20
STEP = 64

Rows = list[tuple[Any, ...]]

_SCAN = sql("scan")


def scan(
    engine: SqliteEngine, columns: Sequence[str], after: int, until: int, types: Types
) -> Iterator[Rows]:
    """The columns of the range `(after, until]`, the position first, in lists that fit into memory."""
    statement = _SCAN.replace("{columns}", ", ".join(("position", *columns[1:])))
    data = columns.index("data") if "data" in columns else None
    listed = msgspec.json.encode(types.listed).decode()
    excluded = None if types.excluded is None else msgspec.json.encode(types.excluded).decode()

    def page(search: Search) -> tuple[Rows, bool]:
        cursor = search.connection.database.execute(statement, (after, until, types.every, listed, excluded))
        rows: Rows = []
        size = 0
        try:
            while step := list(islice(cursor, STEP)):
                rows += step
                size += 0 if data is None else sum([len(row[data]) for row in step])
                if len(rows) >= ROWS or size >= BYTES:
                    return rows, True
        finally:
            cursor.close()
        return rows, False

    is_more = True
    while is_more:
        rows, is_more = engine._ask(page, is_long=True)
        if rows:
            yield rows
            after = rows[-1][0]
