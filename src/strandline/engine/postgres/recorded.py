"""Appends with their conditions as they are stored."""

from __future__ import annotations

from typing import Any

from ..raw_append import RawAppend
from .binary import bigint
from .search import status_of


def page(engine: Any, after: int, until: int, size: int) -> list[RawAppend]:
    """At most `size` appends that begin in `(after, until]`, in order."""
    statement = engine._address.sql("recorded_appends")
    values = bigint(after), bigint(until), bigint(size)
    rows = engine._ask(lambda search: search._call(statement, values))
    return [_append(*row) for row in rows]


def _append(first: int, last: int, recorded_at: int, condition: str | None) -> RawAppend:
    status = status_of(condition)
    return RawAppend(first, last, recorded_at, status, condition if status == "recorded" else None)
