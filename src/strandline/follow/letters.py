"""Dead letters: looked for, replayed, discarded."""

from __future__ import annotations

import msgspec

from ..append import check_position
from ..engine import Engine, Span
from ..engine.following import DeadLetter, Transaction
from ..errors import FollowerFailed, NotFound
from ..event import SequencedEvent
from ..query import Query
from .delivery import HandlerFailed, call
from .options import Handler, Kept, check_takes, described
from .steps import Look, Steps, Within, at_once, transaction


def find(tx: Transaction, follower: str, position: int) -> DeadLetter:
    """The letter, locked until the transaction ends."""
    letter = tx.find_letter(follower, check_position(position, "the position of a dead letter"))
    if letter is None:
        raise NotFound(
            f"follower {follower!r} has no dead letter at {position}", hint="see follower.dead_letters()"
        )
    return letter


def discard(tx: Transaction, follower: str, position: int) -> None:
    """Remove a letter."""
    find(tx, follower, position)
    tx.remove_letter(follower, position)


def replay(engine: Engine, kept: Kept, position: int, handle: Handler, *, is_inside: bool) -> Steps[None]:
    """Call the handler for the event of a letter; the letter is removed if that succeeds, in the same transaction."""
    follower = kept.name
    check_takes(handle, ("events", "tx"), "a handler")

    def work(tx: Transaction) -> Steps[None]:
        yield Within(tx, lambda: find(tx, follower, position))
        if is_inside:
            yield from call(kept, handle, [event], tx)
        yield Within(tx, lambda: tx.remove_letter(follower, position))

    def count_attempt(tx: Transaction) -> None:
        letter = find(tx, follower, position)
        tx.save_letter(msgspec.structs.replace(letter, attempts=letter.attempts + 1, error=told))

    event: SequencedEvent = yield Look(lambda: _event_at(engine, position))
    try:
        if not is_inside:
            yield from at_once(engine, lambda tx: find(tx, follower, position))
            yield from call(kept, handle, [event], None)
        yield from transaction(engine, work)
    except HandlerFailed as failed:
        told = described(failed.__cause__)
        yield from at_once(engine, count_attempt)
        raise FollowerFailed(
            f"follower {follower!r} failed again at event {position}: {told}",
            hint="correct the handler, or discard the letter: follower.discard(position)",
        ) from failed.__cause__


def _event_at(engine: Engine, position: int) -> SequencedEvent:
    checked = check_position(position, "the position of a dead letter")
    events = engine.read_page(Query.all(), Span(checked - 1, checked), 1).events if checked else []
    if not events:
        raise NotFound(f"there is no event at position {position}", hint="see follower.dead_letters()")
    return events[0]
