"""Running a read model and asking it, as steps that serve sync and async."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from ...engine import Span
from ...engine.following import FollowerRow
from ...errors import InvalidInput, NotFound, Unavailable
from ...names import MAX_POSITION
from ..logger import logged
from ..steps import Look, Steps, Wait, at_once
from .making import Made
from .table import dialect_of

T = TypeVar("T")
LOOK_EVERY_SECONDS = 0.005


def prepare(made: Made) -> Steps[None]:
    """Make the table if need be."""
    if (yield Look(made.row)) is None:
        yield from at_once(made.engine, made.prepare)
    yield Look(made.check_table)


def run(made: Made, batch: int, until: Callable[[], int | None]) -> Steps[int]:
    """Make the table if need be, and keep it live until a position."""
    yield from logged(made.name, prepare(made))
    end = yield Look(until)
    return (yield from made.run(batch, end))


def ask(made: Made, question: Callable[[], T]) -> Steps[T]:
    """Ask the table, if it is there and of this version."""
    if (yield Look(made.row)) is None:
        raise NotFound(
            f"there is no table {made.table.name!r} of this read model yet",
            hint="let it run: model.run(store)",
        )
    try:
        return (yield Look(question))  # type: ignore[no-any-return]
    except InvalidInput:
        yield Look(made.row)  # raises if the table has another shape since
        yield Look(made.check_table)
        raise


def wait(made: Made, position: int, timeout: float) -> Steps[None]:
    """Wait until the table has seen everything up to a position."""
    end = time.monotonic() + timeout
    yield Look(partial(_check_reached, made, position))
    while True:
        row: FollowerRow | None = yield Look(made.row)
        if row is not None and (yield Look(partial(_has_seen, made, row, position))):
            return
        left = end - time.monotonic()
        if left <= 0:
            seen = "is not made yet" if row is None else f"has seen everything up to {row.position}"
            failed = f" ({row.error})" if row is not None and row.error else ""
            raise Unavailable(
                f"the table {made.table.name!r} {seen}, not up to {position}{failed}",
                hint="look whether it runs, model.status(), or wait longer: wait_for(position, timeout=60)",
            )
        yield Wait(MAX_POSITION, min(left, LOOK_EVERY_SECONDS))


def look(question: Callable[[], T]) -> Steps[T]:
    """Ask."""
    return (yield Look(question))  # type: ignore[no-any-return]


def _check_reached(made: Made, position: int) -> None:
    """Raise if the log has not got to a position: whoever has seen it was told of it after it was written."""
    head = made.engine.head()
    if position > head and not _may_be_behind(made):
        raise Unavailable(
            f"the table {made.table.name!r} is not up to {position}, for the head of this log is {head}",
            hint="wait for the position of an event of this log: wait_for(store.append(event).position)",
        )


def _may_be_behind(made: Made) -> bool:
    """Whether this is a replica, which may not have heard of what was written."""
    is_postgres = dialect_of(made.engine) == "postgres"
    return is_postgres and bool(made.engine.rows("select pg_is_in_recovery()")[0][0])


def _has_seen(made: Made, row: FollowerRow, position: int) -> bool:
    """Whether nothing up to the position is missing; if nothing matches, the checkpoint itself moves later."""
    if row.position >= position:
        return True
    if made.engine.head() < position:
        return False
    span: Span | None = Span(row.position, position)
    while span is not None:
        page = made.engine.read_page(made.query, span, 1)
        if page.events:
            return False
        span = page.rest
    return True
