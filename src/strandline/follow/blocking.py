"""What a follower needs of a store, and how its steps are taken in the thread that asks for them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from ..activity import IN_TRANSACTION, Activity, current, doing
from ..domain.drive import drive
from ..engine import Engine
from ..engine.following import Transaction
from ..engine.watch import HeadWatch
from .lease import Leases
from .steps import INTERRUPTS, Begin, End, Handle, Look, Step, Steps, Wait, Within

T = TypeVar("T")


class Followed(Protocol):
    """What a follower needs of a store."""

    engine: Engine
    watch: HeadWatch
    leases: Leases

    @property
    def is_closed(self) -> bool:
        """Whether the store was closed."""
        ...

    def check_usable(self) -> None:
        """Raise if the store cannot be used right now."""
        ...

    def check_writable(self) -> None:
        """Raise if the store cannot be written to right now."""
        ...

    def beside(self, into: str | os.PathLike[str]) -> Followed:
        """The same store, whose followers keep what they keep in the database at `into`."""
        ...


def drive_here(steps: Steps[T], store: Followed, is_over: Callable[[], bool]) -> T:
    """Take the steps in this thread, and return their result."""
    before = current.get()
    here = _StepsHere(store, is_over, before)
    try:
        try:
            return drive(steps, here.take, errors=INTERRUPTS)
        finally:
            here.end()
    finally:
        current.set(before)


class _StepsHere:
    """Takes steps one after another. Between `Begin` and `End` this thread is in a transaction."""

    def __init__(self, store: Followed, is_over: Callable[[], bool], before: Activity | None) -> None:
        self._store = store
        self._is_over = is_over
        self._before = before
        self._open: Transaction | None = None

    def take(self, step: Step) -> Any:
        """Take a step."""
        match step:
            case Look() | Within():
                return step.call()
            case Begin():
                self.end()  # of one whose end was interrupted: this one would wait for it
                self._open = step.tx
                current.set(IN_TRANSACTION)
                step.tx.begin()
                return None
            case End():
                self.end()
                return None
            case Handle():
                return call_here(step, step.tx)
            case Wait():
                self._store.watch.wait(step.after, step.ends_with(self._is_over), step.seconds)
                return None

    def end(self) -> None:
        """End the transaction, if one is open."""
        if self._open is not None:
            self._open.end()
            self._open = None
        current.set(self._before)


def call_here(step: Handle, tx: Any) -> Any:
    """Call a function of the user's that is not async."""
    if step.tx is None:
        return step.handle(step.subject, None)
    return doing(step.handling, step.handle, step.subject, tx)
