"""Commands: functions whose parameters are their consistency boundary."""

from __future__ import annotations

import copy
import functools
import hashlib
import inspect
import typing
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import GeneratorType
from typing import Any, Generic, ParamSpec, TypeVar, overload

import msgspec

from ..activity import DECIDING, doing
from ..append import AppendResult
from ..errors import InvalidEvent, InvalidInput
from ..event import Event, SequencedEvent, check_metadata
from ..names import an, check_flag, check_key, check_name, name_list
from .annotations import Names, names_here
from .event import VERSION, DomainEvent
from .handlers import check_events
from .projection import Projection
from .signature import PLAIN_VALUES, ProjectionList, Signature
from .usual import native

P = ParamSpec("P")
R = TypeVar("R")

ATTEMPTS = 32  # 50 at once on one series, from three processes, took 14 at most (docs/commands.md)
CORRELATION, CAUSATION = "correlation_id", "causation_id"
NOW = datetime.min.replace(tzinfo=UTC)
"""As in `now: datetime = NOW`: asks for the time of the decision."""


class Executed(AppendResult, Generic[R], frozen=True):
    """What came of a command: where its events are, the value that it returned, and how often it decided.

    `events` are the events that were written, also if this is a repeat, so that you can give the same answer again:
    `done.events[0].decode(InvoicePaid)`. `head` is the position up to which the log was read for the decision.
    """

    value: R | None = None
    attempts: int = 1
    events: tuple[Event, ...] = ()
    head: int = 0

    @property
    def stream(self) -> str | None:
        """The stream of the events, if all are in one."""
        streams = {event.stream for event in self.events}
        return streams.pop() if len(streams) == 1 else None


class Options(msgspec.Struct, frozen=True):
    """How a command is executed."""

    attempts: int = ATTEMPTS
    metadata: Mapping[str, str] | None = None
    idempotency_key: str | None = None


class Command(Generic[P, R]):
    """A decision. Call it like the function that it is, to test it; a store executes it."""

    def __init__(
        self,
        function: Callable[P, Any],
        signature: Signature,
        *,
        commutative: bool = False,
        guard: tuple[type[DomainEvent], ...] = (),
        name: str | None = None,
    ) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._signature = signature
        self.commutative = commutative
        self.guard = guard
        self.options = Options()
        self.name = f"{function.__module__}.{function.__qualname__}" if name is None else name

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Decide, without any store."""
        for name, value in self._signature.with_defaults(args, kwargs).items():
            if value is NOW:
                raise InvalidInput(
                    f"{self.name} asks for the time, and only a store that executes it fills {name}",
                    hint=f"pass it: {self._function.__name__}(…, {name}={name}), or a time of your own in a test",
                )
        return self._function(*args, **kwargs)

    @property
    def key(self) -> str | None:
        """The idempotency key of its options, with its name: keys of other commands are others."""
        key = self.options.idempotency_key
        return None if key is None else check_key(f"{self.name}:{key}", InvalidInput)

    def with_options(
        self,
        *,
        idempotency_key: str | None = None,
        attempts: int | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Command[P, R]:
        """The same command with other options; those that are not given stay as they are.

        A command with an `idempotency_key` is done once: again with the same arguments it decides and writes nothing, and the
        result is that of the first time. With others it is `IdempotencyKeyReused`. It gives up after so many `attempts`; its events get the `metadata`.
        """
        known = self.options
        if idempotency_key is not None:
            check_name(idempotency_key, "command's key", InvalidInput)
        given = {} if metadata is None else check_metadata(metadata)
        if VERSION in given:
            raise InvalidInput(
                f"{VERSION!r} in the metadata is the version of a typed event's data",
                hint="give it another name: app_version",
            )
        options = Options(
            known.attempts if attempts is None else check_attempts(attempts),
            {**known.metadata, **given} if known.metadata else given or None,
            known.idempotency_key if idempotency_key is None else idempotency_key,
        )
        twin = copy.copy(self)
        twin.options = options
        return twin

    def caused_by(self, event: Event | SequencedEvent) -> Command[P, R]:
        """The same command, whose events say which event led to them.

        Their metadata has `causation_id`, the id of that event, and `correlation_id`, which is that event's own
        or else its id: so whatever followed from one event has its id.
        """
        if not isinstance(event, (Event, SequencedEvent)):
            raise InvalidInput(
                f"a command is caused by an event that has an id, not by {an(type(event).__name__)}",
                hint="pass an event that was read from the log, or an Event",
            )
        correlation = event.metadata.get(CORRELATION, str(event.id))
        return self.with_options(metadata={CORRELATION: correlation, CAUSATION: str(event.id)})


def bind(command: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bound:
    """A command with its arguments, if it is one."""
    if not isinstance(command, Command):
        is_function = inspect.isroutine(command)
        raise InvalidInput(
            f"{command!r:.80} is no command",
            hint="write @command above the function" if is_function else _CALL,
        )
    signature = command._signature
    if native is not None and not kwargs and signature.usual_kinds is not None:
        usual: tuple[list[Projection], list[int]] | None = native.bind(
            args, signature.usual_kinds, PLAIN_VALUES
        )
        if usual is not None:
            return Bound(command, list(args), *usual)
    return Bound.with_any(command, signature.bind(args, kwargs))


class Bound:
    """A command with its arguments."""

    def __init__(
        self,
        command: Command[Any, Any],
        arguments: list[Any],
        projections: list[Projection],
        places: list[int],
        *,
        asks_for_time: bool = False,
    ) -> None:
        self.command = command
        self._arguments = arguments
        self.projections = projections  # those in lists included
        self._places = places  # of the arguments that are no values
        self.asks_for_time = asks_for_time

    @classmethod
    def with_any(cls, command: Command[Any, Any], arguments: list[Any]) -> Bound:
        """A command with arguments that may be projections, lists of them, the time of the decision, or values."""
        projections: list[Projection] = []
        places = []
        for place, value in enumerate(arguments):
            if isinstance(value, Projection):
                projections.append(value)
            elif isinstance(value, ProjectionList):
                projections += value
            elif value is not NOW:
                continue
            places.append(place)
        asks_for_time = any(arguments[place] is NOW for place in places)
        return cls(command, arguments, projections, places, asks_for_time=asks_for_time)

    def fingerprint(self) -> str:
        """Return what tells these arguments from others: the same in every process."""
        return fingerprint_of(self._arguments)

    def decide(
        self, states: Iterable[Projection], now: datetime | None
    ) -> tuple[list[Event | DomainEvent], Any]:
        """Call the function with folded states: its events, and what it returned."""
        folded = iter(states)
        values = self._arguments.copy()
        for place in self._places:
            value = values[place]
            if isinstance(value, Projection):
                values[place] = next(folded)
            else:
                values[place] = now if value is NOW else [next(folded) for _ in value]
        return doing(DECIDING, self._call, values)

    def _call(self, values: list[Any]) -> tuple[list[Event | DomainEvent], Any]:
        return collected(self.command.name, self.command._signature.call(values))


def fingerprint_of(arguments: Sequence[Any]) -> str:
    """Return a hash of the arguments of a command, nothing if they have no form. What JSON has not counts by its type."""
    try:
        encoded = _IN_ORDER.encode(arguments)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return ""
    return hashlib.sha256(encoded).hexdigest()[:32]


def _form_of(value: Any) -> Any:
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Projection):
        return [type(value).__qualname__, *map(str, value._key())]
    return type(value).__qualname__


_IN_ORDER = msgspec.json.Encoder(enc_hook=_form_of, order="deterministic")


@overload
def command(  # type: ignore[overload-overlap]  # a generator is an iterable that also returns a value
    function: Callable[P, Generator[Event | DomainEvent, Any, R]], /
) -> Command[P, R]: ...
@overload
def command(
    function: Callable[P, Iterable[Event | DomainEvent] | Event | DomainEvent | None], /
) -> Command[P, None]: ...
@overload
def command(
    *, commutative: bool = False, guard: Sequence[type[DomainEvent]] = (), name: str | None = None
) -> Decorator: ...
def command(
    function: Any = None,
    /,
    *,
    commutative: bool = False,
    guard: Sequence[type[DomainEvent]] = (),
    name: str | None = None,
) -> Any:
    """Make a command of a function that takes projections and yields events.

    `commutative=True` appends without a condition, but for events of the types in `guard`. Its `name`, which
    idempotency keys belong to, is the function's with the module's; give one that stays if those may change.
    """
    here = names_here()
    check_flag(commutative, "commutative")
    if function is None:
        return functools.partial(_make, commutative=commutative, guard=guard, name=name, here=here)
    return _make(function, commutative=False, guard=(), name=None, here=here)


class Decorator(typing.Protocol):
    """What `@command(…)` does with a function."""

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[P, Generator[Event | DomainEvent, Any, R]], /
    ) -> Command[P, R]: ...
    @overload
    def __call__(
        self, function: Callable[P, Iterable[Event | DomainEvent] | Event | DomainEvent | None], /
    ) -> Command[P, None]: ...


def _make(
    function: Any, *, commutative: bool, guard: Sequence[type[DomainEvent]], name: str | None, here: Names
) -> Command[Any, Any]:
    if name is not None:
        check_name(name, "command name", InvalidInput)
        if ":" in name:
            raise InvalidInput(
                f"the command name {name!r:.80} has a colon, and idempotency keys follow one",
                hint=f'write name="{name.replace(":", ".")[:60]}"',
            )
    listed = check_events(name_list(guard, "guard", InvalidInput), "guard takes event classes, not", _GUARD)
    if listed and not commutative:
        raise InvalidInput("guard is for commutative commands", hint=_GUARD)
    signature = Signature(function, listed, here)
    return Command(function, signature, commutative=commutative, guard=listed, name=name)


def check_attempts(value: object) -> int:
    """How often to decide, at most."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidInput(
            f"attempts is a whole number from 1, not {value!r:.40}", hint="write attempts=1 to try once"
        )
    return value


_CALL = 'pass the command itself, then its arguments: store.execute(enroll, Student("s1"), Course("c1"))'
_GUARD = "write @command(commutative=True, guard=[CourseClosed])"


def collected(name: str, returned: Any, hint: str = "yield events") -> tuple[list[Event | DomainEvent], Any]:
    """The events that a decision of this name gave, and the value that it returned if it is a generator."""
    if returned is None:
        return [], None
    if returned.__class__ is not GeneratorType:  # as it is for most
        if isinstance(returned, (Event, DomainEvent)):
            return [returned], None
        if not isinstance(returned, Iterable):
            raise _no_event(name, returned, hint)
    events: list[Event | DomainEvent] = []
    value = None
    steps = iter(returned)
    while True:
        try:
            event = next(steps)
        except StopIteration as end:
            value = end.value
            refuse_lost(name, events, value, "write yield from [events] instead of return [events]")
            break
        if not isinstance(event, (Event, DomainEvent)):
            raise _no_event(name, event, hint)
        events.append(event)
    return events, value


def refuse_lost(name: str, events: list[Event | DomainEvent], value: object, hint: str) -> None:
    """Refuse a value that is events, if no others are given: nobody would write them."""
    listed = value if isinstance(value, (list, tuple)) else (value,)
    if not events and listed and all(isinstance(each, (Event, DomainEvent)) for each in listed):
        raise InvalidEvent(f"{name} gave its events as its value, which is not written", hint=hint)


def _no_event(name: str, given: object, hint: str) -> InvalidEvent:
    return InvalidEvent(f"{name} gave {an(type(given).__name__)} where an event belongs", hint=hint)
