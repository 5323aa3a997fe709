"""What is refused in the values of an event, although they are of the types of its fields."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import inspect as shapes

from ..codec import check_json, check_zone
from ..errors import InvalidEvent
from ..tag_id import as_json

if TYPE_CHECKING:
    from .event import DomainEvent


class ValueRules:
    """The rules for the values of an event class: times have a zone, and what may be anything is a JSON value."""

    def __init__(self, name: str, fields: Sequence[shapes.Field]) -> None:
        self._name = name
        self.time_fields = tuple([field.name for field in fields if _is_time(field.type)])
        """The fields that are a time, or None."""
        others = [field for field in fields if field.name not in self.time_fields]
        self._with_times = [field.name for field in others if has(_is_time, field.type)]
        self._loose = [field.name for field in others if _is_loose(field.type)]
        self.look_inside = bool(self._with_times or self._loose)
        """Whether something inside of values has to be looked at."""
        self.are_any = bool(self.time_fields) or self.look_inside

    def check(self, event: DomainEvent) -> None:
        """Raise if an event breaks a rule."""
        for name in self.time_fields:
            self._check_times(event, name)
        for name in self._with_times:
            self._check_times(event, name)
        for name in self._loose:
            check_json(getattr(event, name), f"{self._name}.{name}", InvalidEvent)

    def _check_times(self, event: DomainEvent, name: str) -> None:
        try:
            value = msgspec.to_builtins(getattr(event, name), builtin_types=(datetime,), enc_hook=as_json)
        except (TypeError, ValueError, RecursionError):
            return  # what has no JSON form is refused where it is written
        for path, time in _times(value, f"{self._name}.{name}"):
            check_zone(time, path, InvalidEvent)


def has(
    is_one: Callable[[shapes.Type], bool], shape: shapes.Type, path: tuple[shapes.Type, ...] = ()
) -> bool:
    """Return whether a type, or a part of it, is one of some kind."""
    if any(shape is outer for outer in path):  # a type may contain itself
        return False
    return is_one(shape) or any(has(is_one, part, (*path, shape)) for part in parts_of(shape)[1])


def plain(shape: shapes.Type) -> shapes.Type:
    """Return a type without what is said about it besides."""
    return plain(shape.type) if isinstance(shape, shapes.Metadata) else shape


def parts_of(shape: shapes.Type) -> tuple[str, Sequence[shapes.Type]]:
    """The name of a type, if ids in it are no tags of the event, and what it consists of."""
    match shape:
        case (
            shapes.Metadata(type=inner)
            | shapes.ListType(item_type=inner)
            | shapes.SetType(item_type=inner)
            | shapes.VarTupleType(item_type=inner)
            | shapes.FrozenSetType(item_type=inner)
        ):
            return "", [inner]
        case shapes.UnionType(types=types):
            parts = [part for part in types if not isinstance(part, shapes.NoneType)]
            return "a union" * (len(parts) > 1), parts
        case shapes.TupleType(item_types=parts):
            return "a tuple of several types" * any(part != parts[0] for part in parts), parts
        case shapes.DictType(key_type=key, value_type=value):
            return "a dict", [key, value]
        case (
            shapes.StructType(cls=outer, fields=fields)
            | shapes.DataclassType(cls=outer, fields=fields)
            | shapes.NamedTupleType(cls=outer, fields=fields)
            | shapes.TypedDictType(cls=outer, fields=fields)
        ):
            return outer.__name__, [each.type for each in fields]
    return "", []


def _is_time(shape: shapes.Type) -> bool:
    """Whether the values of a type are times, or None."""
    shape = plain(shape)
    parts = shape.types if isinstance(shape, shapes.UnionType) else (shape,)
    kinds = {type(plain(part)) for part in parts}
    return shapes.DateTimeType in kinds and kinds <= {shapes.DateTimeType, shapes.NoneType}


def _is_loose(shape: shapes.Type) -> bool:
    """Whether a type says no more of a part of its values than that they are anything, and the rest is plain JSON."""
    leaves = [*_leaves(shape)]
    return any(map(_is_anything, leaves)) and all(
        _is_anything(leaf) or isinstance(leaf, _JSON_LEAVES) for leaf in leaves
    )


def _is_anything(shape: shapes.Type) -> bool:
    return isinstance(shape, shapes.AnyType) or (isinstance(shape, shapes.CustomType) and shape.cls is object)


def _leaves(shape: shapes.Type) -> Iterator[shapes.Type]:
    """The types inside the lists and dicts of a type."""
    if not isinstance(shape, _JSON_CONTAINERS):
        yield shape
        return
    for part in parts_of(shape)[1]:
        yield from _leaves(part)


def _times(value: Any, path: str) -> Iterator[tuple[str, datetime]]:
    """The times in a value, each with its path."""
    if isinstance(value, datetime):
        yield path, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _times(inner, f"{path}.{name}")
    elif isinstance(value, (list, tuple, set, frozenset)):
        for number, inner in enumerate(value):
            yield from _times(inner, f"{path}[{number}]")


_JSON_CONTAINERS = (shapes.Metadata, shapes.UnionType, shapes.ListType, shapes.VarTupleType, shapes.DictType)
_JSON_LEAVES = (
    *(shapes.StrType, shapes.IntType, shapes.FloatType, shapes.BoolType, shapes.NoneType),
    *(shapes.DateTimeType, shapes.UUIDType, shapes.DecimalType),
)
