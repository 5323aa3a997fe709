"""What running a follower asks for, one step at a time. Generators yield steps; a store, sync or async, takes them."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Generator
from typing import Any, Literal, TypeVar

import msgspec

from ..activity import Activity
from ..engine import Engine
from ..engine.following import Transaction

T = TypeVar("T")

INTERRUPTS = (Exception, KeyboardInterrupt, SystemExit, CancelledError)
"""What is thrown into the generator, so that it can tidy up before it ends."""


class Look(msgspec.Struct, frozen=True):
    """A question, or a page that is read, for which an event loop needs a thread; answered with what the call returns."""

    call: Callable[[], Any]
    kind: Literal["look", "page", "long"] = "look"


class Begin(msgspec.Struct, frozen=True):
    """Begin a transaction."""

    tx: Transaction


class Within(msgspec.Struct, frozen=True):
    """Something to be done in a transaction; answered with what the call returns."""

    tx: Transaction
    call: Callable[[], Any]


class Handle(msgspec.Struct, frozen=True):
    """Call a function of the user's, in a transaction if there is one; it may be async where the store is."""

    handle: Callable[..., Any]
    subject: Any
    tx: Transaction | None
    handling: Activity


class End(msgspec.Struct, frozen=True):
    """End a transaction; what was not committed is undone."""

    tx: Transaction


class Wait(msgspec.Struct, frozen=True):
    """Wait until the head is beyond a position, the follower is stopped, time is up, or `until` says so."""

    after: int
    seconds: float | None = None
    until: Callable[[], bool] | None = None

    def ends_with(self, is_over: Callable[[], bool]) -> Callable[[], bool]:
        """What ends the wait besides the head and time."""
        until = self.until
        return is_over if until is None else lambda: is_over() or until()


Step = Look | Begin | Within | Handle | End | Wait
Steps = Generator[Step, Any, T]


def transaction(engine: Engine, work: Callable[[Transaction], Steps[T]]) -> Steps[T]:
    """Take the steps of the work in a transaction: all of it is done, or nothing."""
    tx = engine.transaction()
    try:
        try:
            yield Begin(tx)
            result = yield from work(tx)
            yield Within(tx, tx.commit)
        except GeneratorExit:
            raise
        except BaseException:
            yield End(tx)
            raise
        yield End(tx)
        return result
    except GeneratorExit:  # nobody takes steps any more
        tx.end()
        raise


def at_once(engine: Engine, work: Callable[[Transaction], T]) -> Steps[T]:
    """Do the work, which calls nobody, in a transaction."""

    def steps(tx: Transaction) -> Steps[T]:
        return (yield Within(tx, lambda: work(tx)))  # type: ignore[no-any-return]

    return transaction(engine, steps)
