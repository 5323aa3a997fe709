"""Scans as SQL, for a driver that copies their result."""

from __future__ import annotations

import re
from collections.abc import Sequence

from psycopg.sql import Literal

from ..scan import COLUMNS, Types
from .address import Log

_SELECTED = {**{name: f"e.{name}" for name in COLUMNS}, "id": "e.id::text as id"}


def scan(log: Log, columns: Sequence[str], after: int, until: int, types: Types) -> str:
    """The statement that reads the columns of the range `(after, until]`; ids come as text."""
    values = {
        "after": after,
        "until": until,
        "every": types.every,
        "listed": list(types.listed),
        "excluded": None if types.excluded is None else list(types.excluded),
    }
    parts = {name: Literal(value).as_string(None) for name, value in values.items()}
    parts["columns"] = ", ".join(_SELECTED[name] for name in columns)
    # In one go: a type may be called {until}.
    return re.sub(r"\{(\w+)\}", lambda found: parts[found[1]], log.sql("scan"))
