"""What annotations mean: known as soon as the names in them are defined, also those inside a function."""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections import ChainMap
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from ..errors import InvalidInput

Names = ChainMap[str, Any]


class Unresolved(InvalidInput):
    """An annotation names something that is not defined. Where a class is defined, that may still come."""


def names_here() -> Names:
    """The names that are defined where the function that asks was called: where a class is being defined."""
    frame = sys._getframe(2)
    return ChainMap(frame.f_locals, frame.f_globals)


def names_of(thing: Any, here: Names | None = None) -> Names:
    """The names that a class or function may mean: those where it was defined, and those of its module."""
    if isinstance(thing, type):
        module = sys.modules.get(thing.__module__)
        names: Names = ChainMap({} if module is None else vars(module), dict(vars(thing)))
    else:
        names = ChainMap(inspect.unwrap(thing).__globals__)
    return names if here is None else ChainMap(*here.maps, *names.maps)


def own_annotations(cls: type) -> dict[str, Any]:
    """The annotations of a class itself, as they are written or already as types."""
    try:
        return inspect.get_annotations(cls)
    except NameError as error:  # from Python 3.14 on they are types, worked out when they are asked for
        raise _undefined(name_of(cls), error) from error


def resolve(annotations: Mapping[str, Any], names: Names, where: str) -> dict[str, Any]:
    """The types that annotations mean. `Annotated` keeps what it says."""
    holder = type("Annotations", (), {"__annotations__": dict(annotations)})
    try:
        return typing.get_type_hints(holder, {}, names, include_extras=True)
    except (NameError, AttributeError) as error:
        raise _undefined(where, error) from error
    except (TypeError, SyntaxError) as error:
        raise InvalidInput(
            f"{where} is not annotated with a type: {error}", hint=f"correct {_texts(annotations)}"
        ) from error


def meant(annotation: Any) -> Any:
    """The type inside `Annotated`, and that of a name made by `type Name = …`."""
    if is_alias(annotation):
        return meant(annotation.__value__)
    return typing.get_args(annotation)[0] if typing.get_origin(annotation) is typing.Annotated else annotation


def is_alias(annotation: Any) -> bool:
    """Whether it is such a name; typing has them from Python 3.12 on."""
    return type(annotation).__name__ == "TypeAliasType"


def bound_of(variable: typing.TypeVar) -> Any:
    """What a variable is bound to, if it is."""
    bound = variable.__bound__
    if isinstance(bound, typing.ForwardRef):
        module = sys.modules.get(variable.__module__)
        names: Names = ChainMap({} if module is None else vars(module))
        return resolve({"bound": bound.__forward_arg__}, names, f"the variable {variable.__name__}")["bound"]
    return bound


def is_class_var(annotation: Any) -> bool:
    """Whether it is `ClassVar` or `ClassVar[…]`, maybe of something that is not defined."""
    if isinstance(annotation, str):
        return "ClassVar" in annotation
    return ClassVar in (annotation, typing.get_origin(annotation))


def alternatives(annotation: Any) -> tuple[Any, ...]:
    """The types of a union; one type is a union of itself."""
    annotation = meant(annotation)
    if typing.get_origin(annotation) not in (typing.Union, types.UnionType):
        return (annotation,)
    return tuple(each for part in typing.get_args(annotation) for each in alternatives(part))


def place(function: Callable[..., Any]) -> str:
    """The function and the line to change: `Course.defined (school.py:12)`."""
    code = inspect.unwrap(function).__code__
    return f"{name_of(function)} ({code.co_filename}:{code.co_firstlineno})"


def name_of(thing: Any) -> str:
    """The name of a class or function, with that of its class, but not that of a function around it."""
    name: str = thing.__qualname__
    return name.rpartition("<locals>.")[2]


def text_of(annotation: Any) -> str:
    """A type as one writes it."""
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def _undefined(where: str, error: Exception) -> Unresolved:
    return Unresolved(
        f"{where} is annotated with something that is not defined: {error}",
        hint="define or import it at the top of the module, not only for type checkers",
    )


def _texts(annotations: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {annotation}" for name, annotation in annotations.items())


def callers() -> int:
    """How far the line is that called the library, for a warning of the function that asks."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("strandline."):
        frame, level = frame.f_back, level + 1
    return level
