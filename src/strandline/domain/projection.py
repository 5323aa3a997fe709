"""Projections: state folded from the events that belong to a key."""

from __future__ import annotations

import copy
import inspect
import types
import typing
from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Any, ClassVar, Self, TypeVar, overload
from uuid import UUID

from ..errors import InvalidInput
from ..event import SequencedEvent
from ..query import QueryItem
from ..tag_id import TagId
from .event import DomainEvent

H = TypeVar("H", bound=Callable[..., None])
_ATOMS = (str, bytes, int, float, bool, type(None), datetime, UUID, Decimal, Enum)
_IMMUTABLE = (*_ATOMS, tuple, frozenset)


class Handler:
    """A method that takes events of some types into the state."""

    def __init__(
        self, name: str, classes: tuple[type[DomainEvent], ...], *, conflicts: bool, takes_recorded: bool
    ) -> None:
        self.name = name
        self.classes = classes
        self.conflicts = conflicts
        self.takes_recorded = takes_recorded


@overload
def on(handler: H, /) -> H: ...
@overload
def on(*events: type[DomainEvent], conflicts: bool = True) -> Callable[[H], H]: ...
def on(*arguments: Any, conflicts: bool = True) -> Any:
    """Mark a method of a projection that takes events: those that its parameter is annotated with.

    `@on(A, B)` names them, if an annotation cannot. With `conflicts=False` the events change the
    state, but do not spoil a decision that was made without them.
    """
    if len(arguments) == 1 and inspect.isfunction(arguments[0]):
        return on()(arguments[0])
    for cls in arguments:
        if not (isinstance(cls, type) and issubclass(cls, DomainEvent)):
            raise InvalidInput(
                f"@on takes event classes, not {cls!r:.80}", hint="write @on or @on(CourseDefined)"
            )

    def mark(handler: H) -> H:
        handler.__on__ = (arguments, conflicts)  # type: ignore[attr-defined]
        return handler

    return mark


class Projection:
    """State that is folded from events. TagId fields without a default are its key, all others have defaults.

    Built from its key alone, `Course("c1")`; the fields are the state. `class X(Projection,
    last_only=True)` is folded from its newest event only, but guards all of them.
    """

    last_only: ClassVar[bool] = False

    def __init_subclass__(cls, *, last_only: bool | None = None) -> None:
        super().__init_subclass__()
        if last_only is not None:
            cls.last_only = last_only

    def __init__(self, *key: str) -> None:
        shape = shape_of(type(self))
        if len(key) != len(shape.key):
            expected = ", ".join(f"{name}: {kind.__name__}" for name, kind in shape.key)
            raise InvalidInput(
                f"{type(self).__name__} is built from ({expected}), not from {len(key)} values",
                hint=f"write {type(self).__name__}({', '.join(repr(name) for name, _ in shape.key)})",
            )
        for (name, kind), value in zip(shape.key, key, strict=True):
            setattr(self, name, kind(value))
        for name, default, is_immutable in shape.state:
            setattr(self, name, default if is_immutable else copy.deepcopy(default))

    def key(self) -> tuple[TagId, ...]:
        """The values of its key fields."""
        return tuple(getattr(self, name) for name, _ in shape_of(type(self)).key)

    def item(self) -> QueryItem:
        """The events that it is folded from."""
        return shape_of(type(self)).item(self.key())

    def guard_item(self) -> QueryItem | None:
        """The events that spoil a decision made with it; None if there are none."""
        return shape_of(type(self)).guard_item(self.key())

    def apply(self, event: SequencedEvent) -> None:
        """Take an event that belongs to it into the state."""
        handler, cls = shape_of(type(self)).handlers[event.type]
        self.handle(handler, cls.from_event(event), event)

    def handle(self, handler: Handler, event: DomainEvent, recorded: SequencedEvent | None) -> None:
        """Call a handler; one that takes the recorded event needs it."""
        method = getattr(self, handler.name)
        if handler.takes_recorded:
            method(event, recorded)
        else:
            method(event)

    def fresh(self) -> Self:
        """The same key, with nothing folded yet."""
        return type(self)(*self.key())

    def copy(self) -> Self:
        """A state of its own: changing one does not change the other."""
        twin = object.__new__(type(self))
        for name, value in vars(self).items():
            twin.__dict__[name] = value if isinstance(value, _ATOMS) else copy.deepcopy(value)
        return twin

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"
        )


class Shape:
    """What a projection class declares, worked out once."""

    def __init__(self, cls: type[Projection]) -> None:
        self.name = cls.__name__
        self.key: list[tuple[str, type[TagId]]] = []
        self.state: list[tuple[str, Any, bool]] = []
        for name, kind in _fields(cls):
            default = inspect.getattr_static(cls, name, _MISSING)
            if default is not _MISSING:
                self.state.append((name, default, isinstance(default, _IMMUTABLE)))
            elif isinstance(kind, type) and issubclass(kind, TagId):
                self.key.append((name, kind))
            else:
                raise InvalidInput(
                    f"{cls.__name__}.{name} has no default, and is not a TagId",
                    hint=f"give it the value that it has before the first event: {name}: … = …",
                )
        self.handlers: dict[str, tuple[Handler, type[DomainEvent]]] = {}
        for handler in _handlers(cls):
            for event in handler.classes:
                known = self.handlers.get(event.event_type)
                if known is not None:
                    raise InvalidInput(
                        f"{cls.__name__} handles {event.event_type} twice: in {known[0].name} and {handler.name}",
                        hint="handle it in one method; two classes with one type name cannot be told apart",
                    )
                self.handlers[event.event_type] = (handler, event)
        if not self.handlers:
            raise InvalidInput(
                f"{cls.__name__} handles no event", hint="add a method: @on def opened(self, event: Opened)"
            )
        self._types = tuple(sorted(self.handlers))
        self._guarded = tuple(name for name in self._types if self.handlers[name][0].conflicts)

    def item(self, key: Sequence[TagId]) -> QueryItem:
        """The events of a key."""
        return QueryItem(self._types, [value.tag for value in key])

    def guard_item(self, key: Sequence[TagId]) -> QueryItem | None:
        """Those that spoil a decision."""
        return QueryItem(self._guarded, [value.tag for value in key]) if self._guarded else None


def shape_of(cls: type[Projection]) -> Shape:
    """What a projection class declares."""
    known: Shape | None = cls.__dict__.get("__shape__")
    if known is None:
        known = Shape(cls)
        cls.__shape__ = known  # type: ignore[attr-defined]
    return known


_MISSING = object()


def _fields(cls: type[Projection]) -> list[tuple[str, Any]]:
    hints = resolved_hints(cls)
    return [
        (name, hint)
        for name, hint in hints.items()
        if not name.startswith("_") and typing.get_origin(hint) is not ClassVar and name not in _OWN_FIELDS
    ]


def _handlers(cls: type[Projection]) -> list[Handler]:
    handlers = []
    for name in dir(cls):
        member = inspect.getattr_static(cls, name)
        if not hasattr(member, "__on__"):
            continue
        named, conflicts = member.__on__
        parameters = list(inspect.signature(member).parameters.values())[1:]
        if not 1 <= len(parameters) <= 2:
            raise InvalidInput(
                f"{cls.__name__}.{name} takes {len(parameters)} parameters",
                hint="a handler takes the event, and if it likes the recorded one: (self, event, recorded)",
            )
        classes = named or _annotated(cls, name, member, parameters[0].name)
        handlers.append(
            Handler(name, tuple(classes), conflicts=conflicts, takes_recorded=len(parameters) == 2)
        )
    return handlers


def _annotated(
    cls: type[Projection], name: str, member: Any, parameter: str
) -> tuple[type[DomainEvent], ...]:
    hint = resolved_hints(member).get(parameter)
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    classes = typing.get_args(hint) if is_union else (hint,)
    if not all(isinstance(kind, type) and issubclass(kind, DomainEvent) for kind in classes):
        raise InvalidInput(
            f"{cls.__name__}.{name} does not say which events it takes",
            hint=f"annotate its parameter: def {name}(self, {parameter}: CourseDefined), or write @on(CourseDefined)",
        )
    return classes


def resolved_hints(thing: Any) -> dict[str, Any]:
    """The annotations of a class or function, as types."""
    try:
        return typing.get_type_hints(thing)
    except NameError as error:
        raise InvalidInput(
            f"an annotation of {thing.__qualname__} cannot be resolved: {error}",
            hint="define the types that it names at the top of the module, or write @on(CourseDefined)",
        ) from error


_OWN_FIELDS = frozenset(typing.get_type_hints(Projection))
