"""Event classes as silver tables: which ones there are, what their columns are, how their events are read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any, TypeGuard

from msgspec import inspect as shapes

from ...domain import codec
from ...domain.event import DomainEvent
from ...domain.event_shape import event_shape
from ...errors import InvalidInput
from ..loading import load, module, path_of
from .export import Source
from .kinds import JSON, Kind, are_plain_names

_SCALARS: dict[type[shapes.Type], Kind] = {
    shapes.BoolType: Kind("bool"),
    shapes.IntType: Kind("int"),
    shapes.FloatType: Kind("float"),
    shapes.StrType: Kind("text"),
    shapes.BytesType: Kind("bytes"),
    shapes.DateTimeType: Kind("time"),
    shapes.DateType: Kind("date"),
    shapes.DecimalType: Kind("decimal"),
    shapes.TimeType: Kind("text"),
    shapes.TimeDeltaType: Kind("text"),
    shapes.UUIDType: Kind("text"),
}


def event_classes(sources: Source | Iterable[Source]) -> dict[str, type[DomainEvent]]:
    """The event classes of modules and import paths, by their types."""
    listed: Iterable[Source] = [sources] if isinstance(sources, (str, type, ModuleType)) else sources
    found: dict[str, type[DomainEvent]] = {}
    for source in listed:
        for cls in _classes(source):
            known = found.setdefault(cls.event_type, cls)
            if known is not cls:
                raise InvalidInput(
                    f"{path_of(known)} and {path_of(cls)} are both the class of {cls.event_type}",
                    hint="name the classes one by one, and each type once: events=['school:CourseDefined']",
                )
    return found


def _classes(source: Source) -> list[type[DomainEvent]]:
    thing = _loaded(source) if isinstance(source, str) else source
    values = vars(thing).values() if isinstance(thing, ModuleType) else [thing]
    found = [value for value in values if _is_event_class(value)]
    if found:
        return found
    raise InvalidInput(
        f"{source!r:.120} is no event class, and no module that has some",
        hint="name a module or a class: events=['school'] or events=['school:CourseDefined']",
    )


def _loaded(path: str) -> Any:
    if ":" in path:
        return load(path)
    return module(path)


def _is_event_class(thing: object) -> TypeGuard[type[DomainEvent]]:
    return isinstance(thing, type) and issubclass(thing, DomainEvent) and thing is not DomainEvent


def fields_of(cls: type[DomainEvent]) -> dict[str, Kind]:
    """The fields of its data, by their names in JSON."""
    event_shape(cls)  # its annotations are types from then on
    with codec.working_out:
        shape = shapes.type_info(cls)
    assert isinstance(shape, shapes.StructType)
    return {field.encode_name: _kind(field.type) for field in shape.fields}


def _kind(shape: shapes.Type, around: tuple[Any, ...] = ()) -> Kind:
    """What a type is in a table; JSON, if it has no type of its own there."""
    match shape:
        case shapes.Metadata(type=inner):
            kind = _kind(inner, around)
        case shapes.UnionType(types=types):
            kind = _union([part for part in types if not isinstance(part, shapes.NoneType)], around)
        case shapes.EnumType(cls=cls):
            kind = _values([member.value for member in cls])
        case shapes.LiteralType(values=values):
            kind = _values(values)
        case shapes.DictType(value_type=inner):
            kind = _of("map", _kind(inner, around))
        case (
            shapes.ListType(item_type=inner)
            | shapes.SetType(item_type=inner)
            | shapes.FrozenSetType(item_type=inner)
            | shapes.VarTupleType(item_type=inner)
        ):
            kind = _of("list", _kind(inner, around))
        case shapes.StructType(tag=None, array_like=False) | shapes.DataclassType() | shapes.TypedDictType():
            kind = _struct(shape, around)
        case shapes.CustomType(cls=cls):
            kind = JSON if cls is object else Kind("text")  # a TagId, for an event class has no other
        case _:
            kind = _SCALARS.get(type(shape), JSON)
    return kind


def _of(name: Any, item: Kind) -> Kind:
    return JSON if item == JSON else Kind(name, item)


def _union(parts: Sequence[shapes.Type], around: tuple[Any, ...]) -> Kind:
    if {*map(type, parts)} == {shapes.IntType, shapes.FloatType}:
        return Kind("float")
    return _kind(parts[0], around) if len(parts) == 1 else JSON


def _values(values: Sequence[Any]) -> Kind:
    kinds = {*map(type, values)} - {type(None)}
    return Kind("text") if kinds == {str} else Kind("int") if kinds == {int} else JSON


def _struct(
    shape: shapes.StructType | shapes.DataclassType | shapes.TypedDictType, around: tuple[Any, ...]
) -> Kind:
    names = [field.encode_name for field in shape.fields]
    if not names or not are_plain_names(names) or any(shape is outer for outer in around):
        return JSON
    fields = {field.encode_name: _kind(field.type, (*around, shape)) for field in shape.fields}
    return Kind("struct", fields=fields)
