"""Filling new tables at once, by somebody who folds a whole log faster than a follower does."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Sequence
from functools import partial
from threading import get_ident
from typing import Protocol

import msgspec

from ...engine.following import FollowerRow, Transaction
from ...errors import FollowerFailed, InvalidInput, StrandlineError
from ...names import MAX_POSITION
from ..blocking import Followed
from ..lease import Lease, LeaseLost, taken
from ..steps import Look, Steps, Wait, at_once
from .making import Made

NEAR = 0.1
"""A table that lacks no more than this part of the log is left to its follower."""
POLL_SECONDS = 0.25

ENGINES = {"spark": "strandline.spark.rebuild"}
"""Who can fill tables at once: modules with a function `bulk(store)`. They are above this layer, so it knows their names only."""


class Bulk(Protocol):
    """Folds a whole log at once. What it does in a transaction is committed with the checkpoints, or not at all."""

    def begin(self, shadows: Sequence[Made], tx: Transaction) -> None:
        """Make room, and remove what a run that was killed has left there."""
        ...

    def fold(self, shadows: Sequence[Made], head: int) -> None:
        """Fold everything up to the head, for as long as it takes; no table changes yet."""
        ...

    def finish(self, shadows: Sequence[Made], tx: Transaction) -> None:
        """Move what was folded into the tables, which are empty, and leave nothing elsewhere."""
        ...

    def abandon(self, shadows: Sequence[Made], tx: Transaction) -> None:
        """Remove what was folded, and the room for it."""
        ...


def bulk_of(engine: str, store: Followed) -> Bulk | None:
    """Who fills tables at once by that name; None if followers are to do it."""
    if engine == "process":
        return None
    if engine not in ENGINES:
        known = " or ".join(f'engine="{name}"' for name in ("process", *ENGINES))
        raise InvalidInput(f"there is no engine {engine!r:.40} to rebuild with", hint=f"write {known}")
    make: Callable[[Followed], Bulk] = importlib.import_module(ENGINES[engine]).bulk
    return make(store)


def fill(shadows: Sequence[Made], bulk: Bulk) -> Steps[bool]:
    """Fill those tables that lack much; False if it was stopped. Whoever else would fill them waits meanwhile."""
    engine, leases, is_over = shadows[0].engine, shadows[0].leases, shadows[0].follower.is_over
    while not is_over():
        head = yield Look(engine.head)
        lacking: list[Made] = yield Look(partial(_lacking, shadows, head))
        if not lacking:
            return True
        rows: list[FollowerRow] | None = yield from at_once(engine, partial(_take, lacking, head, bulk))
        if rows is None:
            yield Wait(MAX_POSITION, POLL_SECONDS)
            continue
        held = [Lease(row) for row in rows]
        run = object()
        try:
            leases.runs[run] = get_ident()
            for lease in held:
                leases.add(lease, run)
            yield from _fill(lacking, held, bulk)
        finally:
            leases.runs.pop(run, None)
    return False


def _fill(shadows: Sequence[Made], held: Sequence[Lease], bulk: Bulk) -> Steps[None]:
    engine = shadows[0].engine
    try:
        head = yield Look(engine.head)
        yield Look(partial(bulk.fold, shadows, head))
        yield from at_once(engine, partial(_finish, shadows, held, bulk, head))
    except LeaseLost:
        return  # somebody else fills them, or has done so
    except GeneratorExit:
        raise
    except BaseException:
        with contextlib.suppress(StrandlineError, LeaseLost):  # then the leases will expire, or are over
            yield from at_once(engine, partial(_abandon, shadows, held, bulk))
        raise


def _lacking(shadows: Sequence[Made], head: int) -> list[Made]:
    return [made for made in shadows if _lacks_much(made, made.row(), head)]


def _lacks_much(made: Made, row: FollowerRow | None, head: int) -> bool:
    if row is None:
        raise FollowerFailed(
            f"the table {made.table.name!r} was put in place by somebody else meanwhile",
            hint="call model.rebuild(store) again if it is not as it should be",
        )
    return head - row.position > head * NEAR


def _take(shadows: Sequence[Made], head: int, bulk: Bulk, tx: Transaction) -> list[FollowerRow] | None:
    """Empty tables, and leases of their followers; None if somebody else fills one of them, or has just done so."""
    now, rows = tx.now(), []
    # Rows are locked in one order, so that two who come at once do not block each other.
    for made in sorted(shadows, key=lambda made: made.name):
        row = tx.find(made.name)
        if not _lacks_much(made, row, head) or row is None or row.is_held(now):
            return None
        if row.is_paused:
            raise FollowerFailed(f"follower {row.name!r} is paused", hint="resume it: follower.resume()")
        rows.append(taken(row, made.leases.owner, now, made.follower.kept.lease_seconds))
    for made in shadows:
        made.table.drop(tx)
        made.create(tx)
    rows = [msgspec.structs.replace(row, start=0, position=0) for row in rows]
    for row in rows:
        tx.save(row)
    bulk.begin(shadows, tx)
    return rows


def _finish(shadows: Sequence[Made], held: Sequence[Lease], bulk: Bulk, head: int, tx: Transaction) -> None:
    """One transaction: nobody else has taken over, the rows are in the tables, the checkpoints at the head."""
    rows = _held(held, tx)
    bulk.finish(shadows, tx)
    for row in rows:
        tx.save(msgspec.structs.replace(row, position=head, judged=head, owner=""))


def _abandon(shadows: Sequence[Made], held: Sequence[Lease], bulk: Bulk, tx: Transaction) -> None:
    """Let somebody else try."""
    rows = _held(held, tx)
    bulk.abandon(shadows, tx)
    for row in rows:
        tx.save(msgspec.structs.replace(row, owner=""))


def _held(leases: Sequence[Lease], tx: Transaction) -> list[FollowerRow]:
    """The rows of these followers; raises if a lease is over."""
    return [lease.held(tx) for lease in leases]
