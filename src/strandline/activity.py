"""The running code's activity in a store: the one place that knows whether a store may be called right now.

A call can come from inside another call: from a matcher, a clock, a handler or a command that the store calls, or
from a signal handler that interrupts the store. Such a call could wait for its own thread for ever. So it is refused,
unless the activity allows it.

The activity is a context variable. A signal handler sees the activity of the code that it interrupts, and two tasks
of one event loop have an activity each.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final, ParamSpec, TypeVar

from .errors import InvalidInput

P = ParamSpec("P")
T = TypeVar("T")


class Activity:
    """Something that the running code does, and the refusal of calls from inside it."""

    __slots__ = ("allows_reading", "has_refused", "hint", "message")

    def __init__(self, message: str, *, hint: str, allows_reading: bool = False) -> None:
        self.message = message
        self.hint = hint
        self.allows_reading = allows_reading
        self.has_refused = False

    def refusal(self) -> InvalidInput:
        """Return the error for a call that is refused."""
        self.has_refused = True
        return InvalidInput(self.message, hint=self.hint)


current: Final[ContextVar[Activity | None]] = ContextVar("strandline_activity", default=None)

_FROM_SIGNAL_HANDLER = (
    "let the handler set a flag, or raise SystemExit, and use the store where it was interrupted"
)

AT_WORK: Final = Activity(
    "the store is at work in this thread: a signal's handler cannot use it meanwhile",
    hint=_FROM_SIGNAL_HANDLER,
)
CLOSING: Final = Activity(AT_WORK.message, hint=AT_WORK.hint)
IN_TRANSACTION: Final = Activity(
    "this thread is in a follower's transaction: a signal's handler cannot write to the log meanwhile",
    hint=_FROM_SIGNAL_HANDLER,
    allows_reading=True,
)
MATCHING: Final = Activity(
    "a matcher must not call the store", hint="read what it needs before, and close over it"
)
DECIDING: Final = Activity(
    "a command cannot write to the store: yield its events",
    hint="yield the events and let store.execute append them, or call the store before or after the command",
    allows_reading=True,
)


def handling() -> Activity:
    """Return the activity of one call of a follower's handler in its transaction."""
    return Activity(
        "a handler of a follower cannot write to the log in its own transaction",
        hint="use an automation, or run(handle, in_transaction=False)",
        allows_reading=True,
    )


def doing(activity: Activity, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the result of the call, which is this activity."""
    before = current.get()
    # An interrupt can come before or after each of these calls, but not inside them, for they are written in C. So
    # the activity ends with the call, wherever an interrupt comes.
    try:
        current.set(activity)
        return call(*args, **kwargs)
    finally:
        current.set(before)


def may_write() -> bool:
    """Return whether the running code may write to a store."""
    return current.get() is None


def refuse_calls() -> None:
    """Raise if the running code may not call a store at all."""
    activity = current.get()
    if activity is not None and not activity.allows_reading:
        raise activity.refusal()


def refuse_writes() -> None:
    """Raise if the running code may not write to a store."""
    activity = current.get()
    if activity is not None:
        raise activity.refusal()
