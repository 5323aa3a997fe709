"""The handlers of a projection class: its methods that are marked with `@on`."""

from __future__ import annotations

import dis
import inspect
import typing
from collections.abc import Iterator, Sequence
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from ..callables import never_runs
from ..errors import InvalidInput
from .annotations import Names, alternatives, meant, name_of, names_of, place, resolve, text_of
from .event import DomainEvent
from .usual import native

if TYPE_CHECKING:
    from .projection import Projection

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


def handlers_of(cls: type[Projection], here: Names | None) -> Iterator[Handler]:
    """The handlers of a class, those of its base classes included."""
    for name in dir(cls):
        member = inspect.getattr_static(cls, name)
        function = getattr(member, "__func__", member)
        if not hasattr(function, "__on__"):
            _refuse_unmarked(cls, name)
            _refuse_forgotten(name, function, here)
            continue
        where = place(function)
        parameters = list(inspect.signature(function).parameters.values())[1:]
        if function is not member or never_runs(function):
            raise InvalidInput(
                f"{where} is no plain method", hint="write: @on def … without staticmethod, async or yield"
            )
        if not 1 <= len(parameters) <= 2 or any(each.kind not in _POSITIONAL for each in parameters):
            raise InvalidInput(
                f"{where} takes {len(parameters)} parameters",
                hint="a handler takes the event, and if it likes the recorded one: (self, event, recorded)",
            )
        named, conflicts = function.__on__
        if not named:
            named = _annotated(function, parameters[0], where, here)
            function.__on__ = (named, conflicts)
        yield Handler(
            name,
            named,
            conflicts=conflicts,
            takes_recorded=len(parameters) == 2,
            blind_code=None if _may_look(function, parameters[0].name) else function.__code__,
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
    gives_nothing = signature.return_annotation in (inspect.Signature.empty, None, "None")
    if len(parameters) == 1 and gives_nothing and _is_event(function, parameters[0], here):
        raise InvalidInput(
            f"{place(function)} takes an event, but is not marked as a handler",
            hint=f"write @on above it; what is not to be called for events is called _{name}",
        )


def _is_event(function: Any, parameter: inspect.Parameter, here: Names | None) -> bool:
    if parameter.annotation is inspect.Parameter.empty:
        return False
    try:
        resolved = resolve({"it": parameter.annotation}, names_of(function, here), "")["it"]
    except InvalidInput:
        return False
    return all(
        isinstance(kind, type) and issubclass(kind, DomainEvent) for kind in alternatives(meant(resolved))
    )


def _may_look(function: Any, parameter: str) -> bool:
    """Whether a function may look at one of its parameters: its code names it, or it is not the code that we see."""
    if type(function) is not FunctionType or hasattr(function, "__wrapped__"):
        return True
    code = function.__code__
    if parameter not in code.co_varnames[: code.co_argcount] or not _SEES_ALL.isdisjoint(code.co_names):
        return True
    named = (step.argval for step in dis.get_instructions(code))
    return any(parameter == name or (isinstance(name, tuple) and parameter in name) for name in named)


# What looks at variables without naming them.
_SEES_ALL = {"locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe", "stack", "breakpoint"}


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
