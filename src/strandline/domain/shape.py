"""What a projection class declares: its key, its state and its handlers."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import typing
from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from ..errors import InvalidInput
from ..query import QueryItem
from ..tag_id import TagId
from .annotations import (
    Names,
    Unresolved,
    alternatives,
    is_class_var,
    meant,
    name_of,
    names_of,
    own_annotations,
    place,
    resolve,
)
from .clashes import refuse_clashes
from .event import DomainEvent
from .event_shape import event_shape

if TYPE_CHECKING:
    from .projection import Projection

ATOMS = (str, bytes, int, float, bool, type(None), datetime, UUID, Decimal, Enum)
_IMMUTABLE = (*ATOMS, tuple, frozenset)
_MISSING = object()
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Handler:
    """A method that takes events of some types into the state."""

    def __init__(
        self, name: str, classes: tuple[type[DomainEvent], ...], *, conflicts: bool, takes_recorded: bool
    ) -> None:
        self.name = name
        self.classes = classes
        self.conflicts = conflicts
        self.takes_recorded = takes_recorded


class Shape:
    """What a projection class declares, worked out once."""

    def __init__(self, cls: type[Projection], here: Names | None = None) -> None:
        fields = _fields(cls, here)
        self.is_final = not any(isinstance(kind, str) for kind in fields.values())
        self.fields = {name: Any if isinstance(kind, str) else kind for name, kind in fields.items()}
        self.key: list[tuple[str, type[TagId]]] = []
        self.state: list[tuple[str, Any, bool]] = []
        for name, kind in self.fields.items():
            self._add_field(cls, name, kind)
        self.handlers: dict[str, tuple[Handler, type[DomainEvent]]] = {}
        for handler in _handlers(cls, here):
            for event in handler.classes:
                self._add_handler(cls, handler, event)
        refuse_clashes(name_of(cls), (), self.tag_kinds)
        self._types = tuple(sorted(self.handlers))
        self._guarded = tuple(name for name in self._types if self.handlers[name][0].conflicts)
        self.is_guarded_whole = self._guarded == self._types

    @property
    def events(self) -> list[type[DomainEvent]]:
        """The event classes that it handles."""
        return [event for _, event in self.handlers.values()]

    @property
    def tag_kinds(self) -> set[type[TagId]]:
        """The kinds of id in its key, and in the events that it handles."""
        kinds = {kind for _, kind in self.key}
        return kinds.union(*(event_shape(event).tag_kinds for event in self.events))

    def item(self, key: Sequence[TagId]) -> QueryItem:
        """The events of a key."""
        return QueryItem(self._types, [value.tag for value in key])

    def guard_item(self, key: Sequence[TagId]) -> QueryItem | None:
        """Those that spoil a decision."""
        return QueryItem(self._guarded, [value.tag for value in key]) if self._guarded else None

    def _add_field(self, cls: type[Projection], name: str, kind: Any) -> None:
        from .projection import Projection

        if hasattr(Projection, name):
            raise InvalidInput(
                f"{name_of(cls)}.{name} hides what every projection has under that name",
                hint=f"give the field another name: {name}_id or {name}_",
            )
        default = inspect.getattr_static(cls, name, _MISSING)
        if isinstance(default, (dataclasses.Field, type(msgspec.field()))):
            raise InvalidInput(
                f"{name_of(cls)}.{name} has a field(…) as its default",
                hint=f"write the value itself, {name}: list[str] = []; each projection gets a copy",
            )
        if hasattr(default, "__on__"):
            raise InvalidInput(
                f"{place(default)} has the name of a field", hint=f"give the method another name: on_{name}"
            )
        if default is not _MISSING:
            self.state.append((name, default, isinstance(default, _IMMUTABLE)))
        elif isinstance(kind, type) and issubclass(kind, TagId) and kind is not TagId:
            self.key.append((name, kind))
        else:
            raise InvalidInput(
                f"{name_of(cls)}.{name} has no default, and is not a TagId",
                hint=f"give it the value that it has before the first event: {name}: {_text(kind)} = …",
            )

    def _add_handler(self, cls: type[Projection], handler: Handler, event: type[DomainEvent]) -> None:
        known = self.handlers.get(event.event_type)
        if known is not None:
            refuse_clashes(name_of(cls), (known[1], event), ())
            raise InvalidInput(
                f"{name_of(cls)} handles {event.event_type} twice: in {known[0].name} and {handler.name}",
                hint="handle it in one method",
            )
        self.handlers[event.event_type] = (handler, event)


def declare(cls: type[Projection], here: Names) -> None:
    """Work out what a new class declares; or when it is first used, if it names what is not defined yet."""
    with contextlib.suppress(Unresolved):
        shape = Shape(cls, here)
        if shape.is_final:
            cls.__shape__ = shape  # type: ignore[attr-defined]
            return
    cls.__here__ = here  # type: ignore[attr-defined]


def shape_of(cls: type[Projection]) -> Shape:
    """What a projection class declares."""
    known: Shape | None = cls.__dict__.get("__shape__")
    if known is None:
        known = Shape(cls, cls.__dict__.get("__here__"))
        cls.__shape__ = known  # type: ignore[attr-defined]
        cls.__here__ = None  # type: ignore[attr-defined]
    return known


def check_events(classes: Sequence[object], where: str, hint: str) -> tuple[type[DomainEvent], ...]:
    """The classes, if they are those of events."""
    for cls in classes:
        if not (isinstance(cls, type) and issubclass(cls, DomainEvent)) or cls is DomainEvent:
            raise InvalidInput(f"{where} {_text(cls):.80}", hint=hint)
    return typing.cast("tuple[type[DomainEvent], ...]", tuple(classes))


def _fields(cls: type[Projection], here: Names | None) -> dict[str, Any]:
    """The types of the fields, those of base classes first."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        for name, annotation in own_annotations(base).items():
            kind = annotation
            if isinstance(annotation, str):
                names = names_of(base, here if base is cls else None)
                kind = _resolved(
                    annotation, names, f"{name_of(base)}.{name}", is_needed=not hasattr(cls, name)
                )
                base.__annotations__[name] = kind  # known from now on, also to subclasses elsewhere
            if not is_class_var(kind) and not name.startswith("_"):
                found[name] = meant(kind)
    return found


def _resolved(annotation: str, names: Names, where: str, *, is_needed: bool) -> Any:
    try:
        return resolve({"field": annotation}, names, where)["field"]
    except Unresolved:
        if is_needed:
            raise
        return annotation  # what type a state has matters to its snapshots only, and may be known then


def _handlers(cls: type[Projection], here: Names | None) -> Iterator[Handler]:
    for name in dir(cls):
        member = inspect.getattr_static(cls, name)
        function = getattr(member, "__func__", member)
        if not hasattr(function, "__on__"):
            _refuse_unmarked(cls, name)
            continue
        where = place(function)
        parameters = list(inspect.signature(function).parameters.values())[1:]
        if function is not member or _never_runs(function):
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
        yield Handler(name, named, conflicts=conflicts, takes_recorded=len(parameters) == 2)


def _refuse_unmarked(cls: type[Projection], name: str) -> None:
    """A method that hides a handler of a base class, and takes no events itself, was hardly meant."""
    for base in cls.__mro__:
        handler: Any = vars(base).get(name)
        if hasattr(handler, "__on__"):
            raise InvalidInput(
                f"{name_of(cls)}.{name} hides the handler {place(handler)}",
                hint="write @on above it, or give it another name",
            )


def _never_runs(function: Any) -> bool:
    """Whether a call only makes something that nobody iterates over or awaits."""
    return any(
        is_one(function)
        for is_one in (
            inspect.iscoroutinefunction,
            inspect.isgeneratorfunction,
            inspect.isasyncgenfunction,
        )
    )


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


def _text(thing: Any) -> str:
    return thing.__name__ if isinstance(thing, type) else str(thing)
