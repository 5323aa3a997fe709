"""What a follower needs of a store, and how its steps are taken in the thread that asks for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ..engine import Engine
from ..engine.following import handling
from ..engine.watch import HeadWatch
from .lease import Leases
from .steps import Begin, End, Handle, Look, Step, Wait, Within


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
        """Raise if the store cannot be used."""
        ...


class BlockingSteps:
    """Takes the steps of one run."""

    def __init__(self, store: Followed, is_over: Callable[[], bool]) -> None:
        self._store = store
        self._is_over = is_over

    def take(self, step: Step) -> Any:
        """Take a step."""
        match step:
            case Look() | Within():
                return step.call()
            case Begin():
                step.tx.begin()
                return None
            case End():
                step.tx.end()
                return None
            case Handle():
                return call_here(step, step.tx)
            case Wait():
                self._store.watch.wait(step.after, step.ends_with(self._is_over), step.seconds)
                return None


def call_here(step: Handle, tx: Any) -> Any:
    """Call a function of the user's that is not async."""
    if step.tx is None:
        return step.handle(step.subject, None)
    with handling(step.handling):
        return step.handle(step.subject, tx)
