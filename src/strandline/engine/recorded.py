"""A log with its recorded appends, read in the order of the log and by no index: what an audit looks at.

What an audit is to find may come from a damaged index, so the events themselves are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..errors import InvalidInput
from . import Engine

PAGE = 20_000


class RecordedRow(NamedTuple):
    """An event, and if it is the first of an append, where that ends and its condition as it is stored.

    The condition is None (none was given), `not_recorded`, `not_auditable`, or JSON.
    """

    position: int
    type: str
    tags: str  # joined by newlines, the idempotency key among them
    stream: str | None
    subject: str | None
    recorded_at: int
    last: int | None
    condition: str | None


def recorded_log(engine: Engine, after: int, until: int) -> Iterator[list[RecordedRow]]:
    """The positions `(after, until]`, page by page."""
    if engine.name == "sqlite":
        from .sqlite.recorded import page as read
    elif engine.name == "postgres":
        from .postgres.recorded import page as read
    else:
        raise InvalidInput(
            f"a log in {engine.name} is known to its own process only", hint="name a file or a database"
        )
    while after < until and (rows := read(engine, after, until, PAGE)):
        yield rows
        after = rows[-1].position
