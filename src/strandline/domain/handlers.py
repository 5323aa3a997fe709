"""The handlers of a projection class: its methods that are marked with `@on`."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator, MutableMapping, Sequence
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from ..callables import never_runs
from ..errors import InvalidInput
from ..event import SequencedEvent
from ..names import an, counted
from ..tag_id import is_same_class
from .annotations import (
    Names,
    alternatives,
    meant,
    name_of,
    names_of,
    own_annotations,
    place,
    resolve,
    text_of,
)
from .bytecode import attributes_set, gives_nothing, may_look
from .event import DomainEvent
from .usual import native

if TYPE_CHECKING:
    from .projection import Projection

_METHODS = (FunctionType, staticmethod, classmethod)
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Handler:
    """A method that takes events of some types into the state."""

    __slots__ = ("blind_code", "classes", "conflicts", "name", "takes_recorded")

    def __init__(
        self,
        name: str,
        classes: tuple[type[DomainEvent], ...],
        *,
        conflicts: bool,
        takes_recorded: bool,
        blind_code: CodeType | None,
    ) -> None:
        self.name = name
        self.classes = classes
        self.conflicts = conflicts
        self.takes_recorded = takes_recorded
        self.blind_code = blind_code
        """The code that never looks at the typed event, so that this need not be made; None if it may look."""

    def is_blind(self, handle: Any) -> bool:
        """Whether what is going to be called never looks at the event: it is the code that was seen, not put in its place since."""
        if self.blind_code is None:
            return False
        try:  # a method, as a rule
            return handle.__func__.__code__ is self.blind_code
        except AttributeError:
            return getattr(handle, "__code__", None) is self.blind_code


if native is not None:
    native.know_handlers(Handler)


def check_events(classes: Sequence[object], where: str, hint: str) -> tuple[type[DomainEvent], ...]:
    """The classes, if they are those of events."""
    for cls in classes:
        if not (isinstance(cls, type) and issubclass(cls, DomainEvent)) or cls is DomainEvent:
            raise InvalidInput(f"{where} {text_of(cls):.80}", hint=hint)
    return typing.cast("tuple[type[DomainEvent], ...]", tuple(classes))


def mark(
    handler: Any, classes: tuple[type[DomainEvent], ...], body: MutableMapping[str, Any], *, conflicts: bool
) -> Any:
    """Mark what is a handler; in the body of its class too, where something else may take its name."""
    if isinstance(handler, (staticmethod, classmethod, property)):
        raise InvalidInput(
            f"@on is above {an(type(handler).__name__)}, which is no plain method",
            hint="write: @on def … without staticmethod, classmethod or property",
        )
    name = getattr(handler, "__name__", "")
    if getattr(handler, "__qualname__", "") == f"{body.get('__qualname__')}.{name}":
        if hasattr(handler, "__on__"):
            named = ", ".join(map(text_of, (*classes, *handler.__on__[0]))) or "CourseDefined"
            raise InvalidInput(
                f"{place(handler)} has two @on, of which one would be lost",
                hint=f"write @on({named}) for all that it takes",
            )
        body.setdefault("__marked__", []).append(handler)
    handler.__on__ = (classes, conflicts)
    return handler


def refuse_lost(cls: type[Projection]) -> None:
    """A handler whose name means something else at the end of the class would never be called."""
    marked = vars(cls).get("__marked__")
    if marked is None:
        return
    del cls.__marked__  # type: ignore[attr-defined]
    for handler in marked:
        name = handler.__name__
        now = vars(cls).get(name, handler)
        if getattr(getattr(now, "__func__", now), "__on__", None) is not handler.__on__:
            raise InvalidInput(
                f"{place(handler)} is lost: there is another {name} below it, or a decorator above @on",
                hint=f"give one of them another name, or write one for both: @on def {name}(self, event: A | B);"
                " @on goes above other decorators",
            )


def handlers_of(cls: type[Projection], here: Names | None) -> Iterator[Handler]:
    """The handlers of a class, those of its base classes included."""
    for name in dir(cls):
        member = inspect.getattr_static(cls, name)
        function = getattr(member, "__func__", member)
        # What a base class has was defined elsewhere, where the same names may mean something else.
        names = here if name in vars(cls) else None
        if not hasattr(function, "__on__"):
            _refuse_unmarked(cls, name)
            if function is member:
                _refuse_forgotten(name, function, names)
            continue
        where = place(function)
        parameters = list(inspect.signature(function).parameters.values())[1:]
        if function is not member or never_runs(function):
            raise InvalidInput(
                f"{where} is no plain method", hint="write: @on def … without staticmethod, async or yield"
            )
        _refuse_new_state(cls, function, where)
        if not 1 <= len(parameters) <= 2 or any(each.kind not in _POSITIONAL for each in parameters):
            raise InvalidInput(
                f"{where} takes {counted(len(parameters), 'parameter')}",
                hint="a handler takes the event, and if it likes the recorded one: (self, event, recorded)",
            )
        named, conflicts = function.__on__
        if named:
            _refuse_others(function, parameters[0], named, where, names)
        else:
            named = _annotated(function, parameters[0], where, here)
            function.__on__ = (named, conflicts)
        if len(parameters) == 2:
            _check_recorded(function, parameters[1], where, names)
        _refuse_overwriting(cls, function, where)
        yield Handler(
            name,
            named,
            conflicts=conflicts,
            takes_recorded=len(parameters) == 2,
            blind_code=None if may_look(function, parameters[0].name) else function.__code__,
        )


def _refuse_new_state(cls: type[Projection], function: Any, where: str) -> None:
    """Refuse a handler that says that it returns a new state, as in a functional fold: it would be lost."""
    from .projection import Projection

    returned = inspect.signature(function).return_annotation
    text = returned.strip("'\"").rpartition(".")[2] if isinstance(returned, str) else None
    is_class = isinstance(returned, type) and issubclass(returned, Projection)
    if is_class or returned is typing.Self or text in {"Self", cls.__name__}:
        raise InvalidInput(
            f"{where} returns a new {cls.__name__}, which would be lost: a handler changes the state that it is called on",
            hint=f"write def {function.__name__}(self, event) -> None: self.taken += 1",
        )


def _refuse_unmarked(cls: type[Projection], name: str) -> None:
    """A method that hides a handler of a base class, and takes no events itself, was hardly meant."""
    for base in cls.__mro__:
        handler: Any = vars(base).get(name)
        if hasattr(handler, "__on__"):
            raise InvalidInput(
                f"{name_of(cls)}.{name} hides the handler {place(handler)}",
                hint="write @on above it, or give it another name",
            )


def _refuse_forgotten(name: str, function: Any, here: Names | None) -> None:
    """A method that takes an event and gives nothing back looks like a handler; without `@on` it would never be called."""
    if name.startswith("_") or not inspect.isfunction(function):
        return
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())[1:]
    is_silent = signature.return_annotation in (None, "None") or (
        signature.return_annotation is inspect.Signature.empty and gives_nothing(function)
    )
    if not (1 <= len(parameters) <= 2 and is_silent and _is_event(function, parameters[0], here)):
        return
    if len(parameters) == 1 or _is_recorded(function, parameters[1], here):
        raise InvalidInput(
            f"{place(function)} takes an event, but is not marked as a handler",
            hint=f"write @on above it; what is not to be called for events is called _{name}",
        )


def _is_event(function: Any, parameter: inspect.Parameter, here: Names | None) -> bool:
    return all(
        isinstance(kind, type) and issubclass(kind, DomainEvent) for kind in _kinds(function, parameter, here)
    )


def _is_recorded(function: Any, parameter: inspect.Parameter, here: Names | None) -> bool:
    if parameter.annotation is inspect.Parameter.empty:
        return parameter.name == "recorded"
    return _kinds(function, parameter, here) == (SequencedEvent,)


def _kinds(function: Any, parameter: inspect.Parameter, here: Names | None) -> tuple[Any, ...]:
    """The types of a parameter; anything if it has none, or it is not known yet."""
    if parameter.annotation is inspect.Parameter.empty:
        return (Any,)
    try:
        resolved = resolve({"it": parameter.annotation}, names_of(function, here), "")["it"]
    except InvalidInput:
        return (Any,)
    return alternatives(meant(resolved))


def _refuse_others(
    function: Any,
    parameter: inspect.Parameter,
    named: tuple[type[DomainEvent], ...],
    where: str,
    here: Names | None,
) -> None:
    """An annotation that is not of the events that `@on` names."""
    if not _is_event(function, parameter, here):
        return
    kinds = _kinds(function, parameter, here)
    for cls in named:
        if not any(is_same_class(base, kind) for base in cls.__mro__ for kind in kinds):
            raise InvalidInput(
                f"{where} takes {text_of(cls)}, but {parameter.name} is annotated with "
                f"{' | '.join(map(text_of, kinds))}",
                hint=f"write @on alone and {parameter.name}: {' | '.join(map(text_of, named))}",
            )


def _check_recorded(function: Any, parameter: inspect.Parameter, where: str, here: Names | None) -> None:
    """A second parameter that is meant for something else than the recorded event, which it is given."""
    kinds = _kinds(function, parameter, here)
    has_default = parameter.default not in (inspect.Parameter.empty, None)
    if SequencedEvent in kinds or (not has_default and any(map(_may_be_recorded, kinds))):
        return
    raise InvalidInput(
        f"{where} is given the recorded event as its second parameter, which is {parameter!s:.80}",
        hint="write recorded: SequencedEvent, or leave it away; for events of several types, event: A | B",
    )


def _may_be_recorded(kind: Any) -> bool:
    return kind is Any or not isinstance(kind, type) or kind is object or getattr(kind, "_is_protocol", False)


def _refuse_overwriting(cls: type[Projection], function: Any, where: str) -> None:
    """A handler that gives a value to a method, which the next event or its kept state would call."""
    for name in attributes_set(inspect.unwrap(function)):
        known = inspect.getattr_static(cls, name, None)
        is_fixed = isinstance(known, property) and known.fset is None
        if is_fixed or (isinstance(known, _METHODS) and not _is_field(cls, name)):
            raise InvalidInput(
                f"{where} gives a value to self.{name}, which is a method",
                hint=f"give the method another name: on_{name}",
            )


def _is_field(cls: type[Projection], name: str) -> bool:
    return any(name in own_annotations(base) for base in cls.__mro__)


def _annotated(
    function: Any, parameter: inspect.Parameter, where: str, here: Names | None
) -> tuple[type[DomainEvent], ...]:
    hint = f"annotate its parameter with events, {parameter.name}: CourseDefined, or write @on(CourseDefined)"
    name, annotation = parameter.name, parameter.annotation
    if annotation is inspect.Parameter.empty:
        raise InvalidInput(f"{where} does not say which events it takes", hint=hint)
    resolved = meant(resolve({name: annotation}, names_of(function, here), where)[name])
    classes = alternatives(resolved)
    return check_events(classes, f"{where} does not say which events it takes: it is annotated with", hint)
