"""A log in a database with its recorded appends."""

from __future__ import annotations

from itertools import starmap
from typing import TYPE_CHECKING

from ..recorded import RecordedRow
from .binary import bigint

if TYPE_CHECKING:
    from . import PostgresEngine


def page(engine: PostgresEngine, after: int, until: int, size: int) -> list[RecordedRow]:
    """At most `size` rows of `(after, until]`, in order."""
    statement = engine._address.sql("recorded_log")
    values = bigint(after), bigint(until), bigint(size)
    return engine._ask(lambda search: list(starmap(RecordedRow, search._call(statement, values))))
