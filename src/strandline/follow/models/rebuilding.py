"""Making tables anew while the old ones serve."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from ...engine import Span
from ...engine.audit import events
from ...engine.following import Transaction
from ...errors import FollowerFailed
from ..steps import Look, Steps, at_once
from .filling import Bulk, fill
from .making import Made


class Pair(NamedTuple):
    """A read model as it serves, and its new table."""

    live: Made
    shadow: Made


def rebuild(pairs: Sequence[Pair], batch: int, bulk: Bulk | None = None) -> Steps[bool]:
    """Fill shadow tables from the beginning, then let them take the places of the old ones; False if it was stopped.

    Followers fill them; or `bulk` does, up to the present head, and followers go on from there.
    """
    for pair in pairs:
        yield from at_once(pair.live.engine, partial(prepare_shadow, pair.live, pair.shadow))
    if bulk is not None and not (yield from fill([pair.shadow for pair in pairs], bulk)):
        return False
    for pair in pairs:
        if not (yield from _take_over(pair.live, pair.shadow, batch)):
            return False
    return True


def _take_over(live: Made, shadow: Made, batch: int) -> Steps[bool]:
    """Let a follower bring the new table up to the head, and put it into the place of the old one."""
    while True:
        head = yield Look(live.engine.head)
        position = yield from shadow.run(batch, head)
        if position < head:
            return False
        if (yield Look(live.engine.head)) - position <= batch:
            break
    yield from at_once(live.engine, lambda tx: _swap(live, shadow, tx, batch))
    return True


def prepare_shadow(live: Made, shadow: Made, tx: Transaction) -> None:
    """A shadow table to go on with, or an empty one."""
    if tx.find(live.name) is None and live.table.exists(tx):
        live.make(tx)  # which says what is wrong
    row = shadow.found_or_new(tx)
    if row is not None and shadow.follower.kept.is_in(row) and shadow.table.exists(tx):
        return
    shadow.table.drop(tx)
    shadow.create(tx)
    if row is not None:
        first = shadow.follower.kept.row(0)
        tx.save(msgspec.structs.replace(first, epoch=row.epoch + 1))


def _swap(live: Made, shadow: Made, tx: Transaction, batch: int) -> None:
    """One transaction: fold the rest, rename, and move the checkpoint. Nobody moves either follower meanwhile."""
    live.found_or_new(tx)
    old, row = tx.find(live.name), tx.find(shadow.name)
    is_ready = row is not None and shadow.follower.kept.is_in(row) and shadow.table.exists(tx)
    if old is None or row is None or not is_ready:
        raise FollowerFailed(
            f"the table {live.table.name!r} was rebuilt by somebody else meanwhile",
            hint="call model.rebuild(store) again if it is not as it should be",
        )
    head = live.engine.head()
    if row.position < head:
        rest = list(events(live.engine, shadow.query, Span(row.position, head)))
        for start in range(0, len(rest), batch):
            shadow.refill(rest[start : start + batch], tx)
    live.table.drop(tx)
    shadow.table.rename(tx, live.table)
    tx.save(
        msgspec.structs.replace(
            old,
            query=live.follower.kept.query_text,
            start=0,
            position=head,
            judged=head,
            epoch=old.epoch + 1,  # whoever runs it begins again from this row
            owner="",
            error="",
        )
    )
    tx.forget(shadow.name)
