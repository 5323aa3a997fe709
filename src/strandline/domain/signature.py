"""The parameters of a command: projections, lists of projections, and plain values."""

from __future__ import annotations

import contextlib
import inspect
import typing
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

from ..callables import is_async
from ..errors import InvalidInput, InvalidQuery
from ..event import Event, SequencedEvent
from ..names import an, name_list
from ..tag_id import TagId, as_ids, hint_of_twins, is_same_class
from .annotations import (
    Names,
    Unresolved,
    alternatives,
    bound_of,
    callers,
    is_alias,
    meant,
    names_of,
    place,
    resolve,
)
from .boundary import refuse_clashes_of
from .event import DomainEvent
from .missing_tags import MissingTags
from .projection import Projection, refuse_own_beginning
from .shape import shape_of

Kind = type[Projection] | list[type[Projection]] | None
"""A projection class, a list of one, or None for a plain value."""

_OPTIONS = ("idempotency_key", "attempts", "metadata")
_ONE_VALUE = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


PLAIN_VALUES = frozenset({str, int, float, bool, bytes, type(None), UUID, Decimal})
_HOLDING = (list, tuple, set, frozenset, dict)
_HOLDING_IDS = (list, tuple, set, frozenset, Sequence, Iterable)

Ids = tuple[type[TagId], bool]
"""A kind of id, and whether there are several."""


class WrongCall(InvalidInput):
    """A call that is wrong whatever the values in it are: the code is to blame."""


class ProjectionList(list[Projection]):
    """The argument of a `list[…]` parameter."""


class Signature:
    """What a command asks for, known when it is defined, if the types that it names are."""

    def __init__(
        self, function: Callable[..., Any], guard: tuple[type[DomainEvent], ...], here: Names | None = None
    ) -> None:
        if not inspect.isfunction(function):
            is_static = isinstance(function, staticmethod)
            hint = "write @staticmethod above @command" if is_static else "write: @command def …"
            raise InvalidInput(f"a command is a function, not {function!r:.80}", hint=hint)
        self._function = function
        self._guard = guard
        self._signature = inspect.signature(function)
        self._is_positional = all(
            each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
            for each in self._signature.parameters.values()
        )
        self._where = place(function)
        if is_async(function) or inspect.isasyncgenfunction(function):
            raise InvalidInput(
                f"{self._where} is async: a decision waits for nothing",
                hint=f"write def {function.__name__}(…) and ask before the command for what it needs",
            )
        self._refuse_parameters()
        self._here = here
        self._kinds: dict[str, Kind] | None = None
        self._ids: dict[str, Ids] = {}
        """The kinds of id among the values, by parameter."""
        self.usual_kinds: tuple[type[Projection] | None, ...] | None = None
        """The kinds of its parameters, if none of them is a list or an id, and all may be given by their places."""
        with contextlib.suppress(Unresolved):  # then they are worked out when the command is first executed
            self._resolve()

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The arguments of one execution, in the order of the parameters; raw keys become projections."""
        kinds = self._resolve() if self._kinds is None else self._kinds
        if kwargs or len(args) != len(kinds) or not self._is_positional:
            args = tuple(self._bind(args, kwargs).values())
        return [
            value
            if type(value) is kind or (kind is None and type(value) in PLAIN_VALUES and name not in self._ids)
            else _argument(kind, name, self._with_ids(name, value))
            for (name, kind), value in zip(kinds.items(), args, strict=True)
        ]

    def _with_ids(self, name: str, value: Any) -> Any:
        """A value with ids in the place of what they are made of, unless it is what the signature says itself."""
        ids = self._ids.get(name)
        if ids is None or value is self._signature.parameters[name].default:
            return value
        return _as_ids(ids, name, value)

    def with_defaults(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call that is no execution, by name, as far as there are any."""
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError:  # Python tells what is wrong
            return {}
        bound.apply_defaults()
        return bound.arguments

    def call(self, values: list[Any]) -> Any:
        """Call the function with arguments in the order of its parameters."""
        if self._is_positional:
            return self._function(*values)
        return self._function(**dict(zip(self._signature.parameters, values, strict=True)))

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            name = self._function.__name__
            options = [each for each in _OPTIONS if each in kwargs and each not in self._signature.parameters]
            hint = f"call it as {name}{self._signature}"
            if options:
                hint = f"give options to the command itself: {name}.with_options({options[0]}=…)"
            raise WrongCall(f"{name}: {error}", hint=hint) from None
        bound.apply_defaults()
        return bound.arguments

    def _refuse_parameters(self) -> None:
        for name, parameter in self._signature.parameters.items():
            if parameter.kind not in _ONE_VALUE:
                raise InvalidInput(
                    f"the parameter {_bare(parameter)} of {self._where} is not one named argument",
                    hint=f"write {name}: Course, or {name}: list[Course], without * and /",
                )
            if name in {"self", "cls"} and parameter.annotation is inspect.Parameter.empty:
                raise InvalidInput(
                    f"{self._where} is a method, and a command is called without an object",
                    hint=f"write @staticmethod above @command, and no {name}",
                )
            if parameter.annotation is inspect.Parameter.empty:
                raise InvalidInput(
                    f"the parameter {name} of {self._where} has no type",
                    hint=f"annotate it with a projection or the type of a value: {name}: Course",
                )

    def _resolve(self) -> dict[str, Kind]:
        annotations = {name: each.annotation for name, each in self._signature.parameters.items()}
        types = resolve(annotations, names_of(self._function, self._here), self._where)
        kinds = {name: self._kind(name, meant(annotation)) for name, annotation in types.items()}
        listed = [kind[0] if isinstance(kind, list) else kind for kind in kinds.values()]
        self._check_projections([kind for kind in listed if kind is not None])
        refuse_clashes_of(
            self._where,
            tuple(kind for kind in listed if kind is not None),
            (*self._guard, *self._written()),
            tuple(kind for each in types.values() for kind in _types_in(meant(each)) if _is_id(kind)),
        )
        self._ids = {name: ids for name, each in types.items() if (ids := _ids_in(each)) is not None}
        self._kinds, self._here = kinds, None
        one_each = [
            kind for name, kind in kinds.items() if not isinstance(kind, list) and name not in self._ids
        ]
        self.usual_kinds = tuple(one_each) if self._is_positional and len(one_each) == len(kinds) else None
        return kinds

    def _check_projections(self, projections: Sequence[type[Projection]]) -> None:
        if not projections:
            raise InvalidQuery(
                f"{self._where} depends on nothing: none of its parameters is a projection",
                hint="give it one, course: Course; or write store.append(event)",
            )
        for cls in projections:
            refuse_own_beginning(cls)
            for message in shape_of(cls).unreached:
                warnings.warn(message, MissingTags, stacklevel=callers())
            if not shape_of(cls).handlers:
                raise InvalidInput(
                    f"{self._where} asks for {an(cls.__name__)}, which handles no event",
                    hint=f"add a method to {cls.__name__}: @on def opened(self, event: Opened)"
                    if cls is not Projection
                    else "ask for a class of your own: class Course(Projection)",
                )

    def _written(self) -> Iterator[type[DomainEvent]]:
        """The events that it says it gives."""
        returned = self._signature.return_annotation
        # What it says there is for type checkers, and may be anything.
        with contextlib.suppress(InvalidInput):
            names = names_of(self._function, self._here)
            for kind in _types_in(meant(resolve({"returned": returned}, names, self._where)["returned"])):
                if issubclass(kind, DomainEvent) and kind is not DomainEvent:
                    yield kind

    def _kind(self, name: str, annotation: Any) -> Kind:
        one = _class_of(annotation)
        if _is_projection(one):
            found: type[Projection] = one
            return found
        inner = typing.get_args(annotation)
        if (
            typing.get_origin(annotation) in (list, Sequence)
            and inner
            and _is_projection(_class_of(inner[0]))
        ):
            return [_class_of(inner[0])]
        for kind in _types_in(annotation):
            if _is_projection(kind):
                raise InvalidInput(
                    f"the parameter {name} of {self._where} is neither a projection nor a value: {annotation}",
                    hint=f"write {name}: {kind.__name__}, or {name}: list[{kind.__name__}] for any number",
                )
            if issubclass(kind, (DomainEvent, Event, SequencedEvent)):
                raise InvalidInput(
                    f"the parameter {name} of {self._where} is an event: neither a projection nor a value",
                    hint="ask for a projection that is folded from such events",
                )
        return None


def _bare(parameter: inspect.Parameter) -> str:
    return str(parameter.replace(annotation=inspect.Parameter.empty))


def _is_projection(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Projection)


def _is_id(kind: type) -> bool:
    return issubclass(kind, TagId) and kind is not TagId


def _class_of(annotation: Any) -> Any:
    """The class that is meant: that of a generic one, of a variable that stands for one, or of a NewType."""
    annotation = meant(annotation)
    if isinstance(annotation, typing.TypeVar):
        bound = bound_of(annotation)
        return annotation if bound is None else _class_of(bound)
    if isinstance(annotation, typing.NewType):
        return _class_of(annotation.__supertype__)
    origin = typing.get_origin(annotation)
    return origin if _is_projection(origin) else annotation


def _types_in(annotation: Any, around: tuple[Any, ...] = ()) -> Iterator[type]:
    """The classes whose instances are in a value of this type, which may be a part of itself: `type Json = … list[Json]`."""
    if annotation in around:
        return
    if is_alias(annotation):
        around = (*around, annotation)
    annotation = _class_of(annotation)
    if typing.get_origin(annotation) in (type, Callable):  # these say something about them, but hold none
        return
    inner = (
        annotation.__constraints__ if isinstance(annotation, typing.TypeVar) else typing.get_args(annotation)
    )
    for each in inner:
        yield from _types_in(each, around)
    if not inner and isinstance(annotation, type):
        yield annotation


def _ids_in(annotation: Any) -> Ids | None:
    """The kind of id that a parameter takes, and whether it takes several; None if it may take something else."""
    parts = [part for part in alternatives(annotation) if part is not type(None)]
    inner = [each for part in parts for each in typing.get_args(part) if each is not Ellipsis]
    is_several = any(typing.get_origin(part) in _HOLDING_IDS for part in parts)
    if len(parts) != 1 or (is_several and len(inner) != 1):
        return None
    kind = _class_of(inner[0] if is_several else parts[0])
    return (kind, is_several) if isinstance(kind, type) and _is_id(kind) else None


def _as_ids(ids: Ids, name: str, value: Any) -> Any:
    """A value with ids in the place of what they are made of: raw text would be no tag, or that of something else."""
    kind, is_several = ids
    if is_several and isinstance(value, (str, int, UUID)):
        raise InvalidInput(
            f"{name} takes several ids, not one: {value!r:.60}", hint=f"pass a list: [{value!r:.60}]"
        )
    return as_ids(kind, value)


def _argument(kind: Kind, name: str, value: Any) -> Any:
    if kind is None:
        return _value(name, value)
    if isinstance(kind, list):
        return ProjectionList(
            _projection(kind[0], name, each) for each in name_list(value, "projection", InvalidInput)
        )
    return _projection(kind, name, value)


def _value(name: str, value: Any) -> Any:
    """A value that the function gets as it is, each time that it decides."""
    if hasattr(type(value), "__next__"):
        raise InvalidInput(
            f"{name} is {an(type(value).__name__)}, which can be used once: a command may decide several times",
            hint=f"pass a list: list({name})",
        )
    if isinstance(value, Projection):
        raise InvalidInput(
            f"{name} is {an(type(value).__name__)}, but its type does not say so: it would not be folded",
            hint=f"annotate it with its class, {name}: {type(value).__name__}",
        )
    inside = value.values() if isinstance(value, dict) else value
    if isinstance(value, _HOLDING) and any(isinstance(each, Projection) for each in inside):
        raise InvalidInput(
            f"{name} has projections in it, but its type does not say so: they would not be folded",
            hint=f"annotate it with their class, {name}: list[Course]",
        )
    return value


def _projection(kind: type[Projection], name: str, value: Any) -> Projection:
    if isinstance(value, Projection):
        if is_same_class(type(value), kind):
            return value
        # A subclass would do for the function, but the boundary is what the signature says.
        raise InvalidInput(
            f"{name} is {an(kind.__name__)}, not {an(type(value).__name__)}",
            hint=hint_of_twins(type(value), kind) or f"pass {kind.__name__}(…) for {name}",
        )
    return kind(*value) if isinstance(value, tuple) else kind(value)
