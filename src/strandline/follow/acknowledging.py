"""What the holder of a lease may do with it: acknowledge events, or give one up."""

from __future__ import annotations

import traceback

import msgspec

from ..append import check_position
from ..engine.following import DeadLetter, FollowerRow, Transaction
from ..errors import FollowerFailed, InvalidInput
from .options import described, plain
from .token import Token


def acknowledge(tx: Transaction, token: Token, position: int | None) -> int:
    """Move the checkpoint to a position that was leased; returns the checkpoint."""
    row = held(tx, token)
    reached = check_position(token.position if position is None else position, "position")
    if reached > token.position:
        raise InvalidInput(
            f"the lease ends at position {token.position}, so {reached} cannot be acknowledged",
            hint="acknowledge the position of a leased event, or leave it out for all of them",
        )
    return _move(tx, row, token, reached)


def give_up(tx: Transaction, token: Token, position: int, error: str | BaseException) -> int:
    """Make a dead letter of a leased event, and move the checkpoint there; returns the checkpoint."""
    row = held(tx, token)
    if tx.find_letter(row.name, position) is not None and position <= row.position:
        return row.position  # a repeat
    if not row.position < position <= token.last:
        raise not_leased(position, f"the lease has those in ({row.position}, {token.last}]")
    tx.save_letter(_letter(row.name, position, error, tx.now()))
    return _move(tx, row, token, position)


def held(tx: Transaction, token: Token) -> FollowerRow:
    """The row of the follower, locked until the transaction ends, if the token is still good."""
    row = tx.find(token.name)
    if row is None or row.epoch != token.epoch or not (row.owner == "" or row.owner.endswith(token.mark)):
        raise FollowerFailed(
            f"the lease of follower {token.name!r} is lost: it expired and another one has it, or the follower was"
            " paused or reset",
            hint="lease again: events that were not acknowledged come again",
        )
    return row


def not_leased(position: int, reason: str) -> InvalidInput:
    """The error for an event that the lease does not have."""
    return InvalidInput(
        f"event {position} is not one of those that were leased: {reason}",
        hint="give the position of one of them",
    )


def _move(tx: Transaction, row: FollowerRow, token: Token, position: int) -> int:
    """Move the checkpoint forward. With the last event the lease is over, before it begins to run again."""
    if not row.owner:
        return row.position  # all was acknowledged before
    if position >= token.last:
        moved = msgspec.structs.replace(row, position=token.position, owner="")
    else:
        moved = msgspec.structs.replace(row, position=max(row.position, position), renewed_at=tx.now())
    tx.save(moved)
    return moved.position


def _letter(name: str, position: int, error: str | BaseException, now: int) -> DeadLetter:
    if isinstance(error, BaseException):
        trace = plain("".join(traceback.format_exception(error)))
        return DeadLetter(name, position, described(error), trace, 1, now)
    return DeadLetter(name, position, plain(error), "", 1, now)
