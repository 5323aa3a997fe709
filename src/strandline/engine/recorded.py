"""The appends of a range with their conditions as they are stored, for those who take millions of them at once."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import InvalidInput
from . import Engine
from .raw_append import RawAppend

PAGE = 20_000


def raw_appends(engine: Engine, after: int, until: int) -> Iterator[list[RawAppend]]:
    """The appends that begin in `(after, until]`, page by page."""
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
        after = rows[-1].first
