"""Automations: an event leads to commands, each of them done once, whatever is killed when."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from typing import Any, ParamSpec

from ..callables import is_async
from ..domain.command import Command, bind
from ..domain.drive import drive, drive_async
from ..domain.signature import WrongCall
from ..errors import IdempotencyKeyReused, InvalidInput
from ..event import SequencedEvent
from ..names import MAX_NAME
from .options import Handler, check_takes, go_on
from .worker import RunOptions

P = ParamSpec("P")

Ignored = type[Exception] | tuple[type[Exception], ...]


class Call:
    """A command with its arguments, to be executed: `Call(welcome, Wallet("w1"), cents=500)`."""

    def __init__(self, command: Command[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> None:
        bind(command, args, kwargs)  # a wrong call is told where it is made
        self.command: Command[..., Any] = command
        self.args: tuple[Any, ...] = args
        self.kwargs: dict[str, Any] = kwargs

    def __repr__(self) -> str:
        return f"<Call of {self.command.name}>"


Decision = Callable[[SequencedEvent], Call | Iterable[Call] | None]
"""What an event leads to."""


class Automation:
    """What an automation does with events: which commands it asks for, in which order, with which keys."""

    def __init__(self, name: str, decide: Decision, ignore: Ignored) -> None:
        if not callable(decide) or is_async(decide):
            raise InvalidInput(
                "an automation takes a plain function of an event", hint="return Call(command, …), or None"
            )
        check_takes(decide, ("event",), "the function of an automation")
        self._name = name
        self._decide = decide
        self._ignore = _exceptions(ignore)

    def steps(self, events: Sequence[SequencedEvent]) -> Generator[Call, Any, None]:
        """The calls, one after the other; what becomes of each is sent or thrown in."""
        for event in events:
            for index, call in enumerate(_calls(self._decide(event))):
                try:
                    yield self._keyed(call, event, index)
                except (
                    IdempotencyKeyReused
                ):  # what the event led to was done, and may come out otherwise today
                    if isinstance(call, Call) and call.command.options.idempotency_key is not None:
                        raise
                except self._ignore:
                    continue

    def _keyed(self, call: object, event: SequencedEvent, index: int) -> Call:
        """The call as of this event: done again it does nothing, and its events say what led to them."""
        if not isinstance(call, Call):
            raise WrongCall(
                f"automation {self._name!r} wants {call!r:.80} executed, which is no call",
                hint="return Call(command, …), several of them, or None",
            )
        command = call.command.caused_by(event)
        if command.options.idempotency_key is None:
            command = command.with_options(idempotency_key=_key(self._name, event.position, index))
        return Call(command, *call.args, **call.kwargs)


def run_options(given: RunOptions) -> RunOptions:
    """Return how to run it. It goes on after a retag, what was done stays true."""
    return RunOptions(on_retag=go_on) | given


def blocking(automation: Automation, execute: Callable[..., Any]) -> Handler:
    """The handler of an automation."""

    def handle(events: Sequence[SequencedEvent], _: None) -> None:
        def perform(call: Call) -> Any:
            return execute(call.command, *call.args, **call.kwargs)

        drive(automation.steps(events), perform, errors=(Exception,))

    return handle


def awaiting(automation: Automation, execute: Callable[..., Awaitable[Any]]) -> Handler:
    """The same for asyncio."""

    async def handle(events: Sequence[SequencedEvent], _: None) -> None:
        async def perform(call: Call) -> Any:
            return await execute(call.command, *call.args, **call.kwargs)

        await drive_async(automation.steps(events), perform, errors=(Exception,))

    return handle


def _calls(decided: Any) -> Iterable[Any]:
    if decided is None:
        return ()
    return decided if isinstance(decided, Iterable) else (decided,)


def _key(name: str, position: int, index: int) -> str:
    key = f"{name}:{position}:{index}"
    return key if len(key) <= MAX_NAME else hashlib.sha256(key.encode()).hexdigest()


def _exceptions(ignore: object) -> tuple[type[Exception], ...]:
    listed = ignore if isinstance(ignore, tuple) else (ignore,)
    if not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in listed):
        raise InvalidInput(f"ignore takes exception classes, not {ignore!r:.80}", hint="ignore=(CourseFull,)")
    return listed
