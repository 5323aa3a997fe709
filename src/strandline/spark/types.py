"""Python types as Spark types: which a field has by its annotation, and how its values are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Any, NamedTuple

import pyarrow as pa
from msgspec import inspect as shapes

from ..domain import codec
from ..domain.annotations import text_of
from ..errors import InvalidInput
from ..tag_id import TagId

HINT = (
    "annotate it with int, float, bool, str, a TagId, datetime, date, Decimal, UUID, bytes, an enum of text or of"
    " numbers, or a list, tuple, set, dict, dataclass, NamedTuple or msgspec.Struct of these; each may be None"
)
Convert = Callable[[Any], Any]


class SparkType(NamedTuple):
    """A Spark type, as SQL and as Arrow know it; `write` gives what Arrow takes, None for what it takes as it is."""

    ddl: str
    arrow: pa.DataType
    write: Convert | None = None

    def array(self, values: Sequence[Any]) -> pa.Array:
        """Values as a column; raises if one is not of this type."""
        write = self.write
        if write is not None:
            values = [None if value is None else write(value) for value in values]
        return pa.array(values, self.arrow)


def spark_type(annotation: Any, where: str) -> SparkType:
    """The Spark type of a field, which `where` names in an error."""
    try:
        with codec.working_out:
            shape = shapes.type_info(annotation)
        return _type(shape)
    except (_NoSparkType, TypeError, NameError) as error:
        why = error if isinstance(error, _NoSparkType) else ""
        raise InvalidInput(f"{where}: {text_of(annotation)} has no Spark type{why}", hint=HINT) from error


def struct_ddl(fields: Iterable[tuple[str, SparkType]]) -> str:
    """A list of columns, as SQL writes it."""
    return ", ".join(f"{quoted(name)} {kind.ddl}" for name, kind in fields)


def quoted(name: str) -> str:
    """A name of a column, whatever it is."""
    return f"`{name.replace('`', '``')}`"


class _NoSparkType(Exception):
    """What is in the way, if it is only a part of the type."""


def _of_enum(cls: type[Enum]) -> SparkType:
    values = [member.value for member in cls]
    return SparkType(*_of_values(values)[:2], lambda member: member.value)


def _of_values(values: Sequence[Any]) -> SparkType:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {str}:
        return _STRING
    if kinds == {int}:
        return _BIGINT
    raise _NoSparkType


def _in_order(values: Iterable[Any]) -> list[Any]:
    """The values of a set, in the same order each time."""
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=repr)


def _with_zone(value: Any) -> Any:
    if value.tzinfo is None:
        raise ValueError("a time without a time zone is no TIMESTAMP")
    return value


_STRING = SparkType("STRING", pa.string())
_BIGINT = SparkType("BIGINT", pa.int64())
_SCALARS: dict[type[shapes.Type], SparkType] = {
    shapes.StrType: _STRING,
    shapes.IntType: _BIGINT,
    shapes.FloatType: SparkType("DOUBLE", pa.float64()),
    shapes.BoolType: SparkType("BOOLEAN", pa.bool_()),
    shapes.BytesType: SparkType("BINARY", pa.binary()),
    shapes.DateTimeType: SparkType("TIMESTAMP", pa.timestamp("us", "UTC"), _with_zone),
    shapes.DateType: SparkType("DATE", pa.date32()),
    shapes.DecimalType: SparkType("DECIMAL(38,18)", pa.decimal128(38, 18)),
    shapes.UUIDType: SparkType("STRING", pa.string(), str),
}


def _type(shape: shapes.Type, path: tuple[shapes.Type, ...] = ()) -> SparkType:
    known = _SCALARS.get(type(shape))
    if known is not None:
        return known
    if any(shape is outer for outer in path):
        raise _NoSparkType(": it contains itself")
    match shape:
        case shapes.EnumType(cls=cls):
            return _of_enum(cls)
        case shapes.LiteralType(values=values):
            return _of_values(values)
        case shapes.CustomType(cls=cls) if isinstance(cls, type) and issubclass(cls, TagId):
            return SparkType("STRING", pa.string(), str.__str__)
    return _of_parts(shape, lambda part: _type(part, (*path, shape)))


def _of_parts(shape: shapes.Type, of: Callable[[shapes.Type], SparkType]) -> SparkType:
    match shape:
        case shapes.Metadata(type=inner):
            return of(inner)
        case shapes.UnionType(types=types) if len(types) == 2 and shapes.NoneType() in types:
            return of(next(part for part in types if not isinstance(part, shapes.NoneType)))
        case shapes.ListType(item_type=item) | shapes.VarTupleType(item_type=item):
            return _array(of(item), list)
        case shapes.SetType(item_type=item) | shapes.FrozenSetType(item_type=item):
            return _array(of(item), _in_order)
        case shapes.DictType(key_type=key, value_type=value):
            return _map(of(key), of(value))
    return _of_fields(shape, of)


def _of_fields(shape: shapes.Type, of: Callable[[shapes.Type], SparkType]) -> SparkType:
    match shape:
        case shapes.TupleType(item_types=items):
            numbered = [(f"_{number}", of(item)) for number, item in enumerate(items, 1)]
            return _struct(numbered, lambda value, name: value[int(name[1:]) - 1])
        case shapes.TypedDictType(fields=fields):
            return _struct([(field.name, of(field.type)) for field in fields], dict.get)
        case (
            shapes.StructType(fields=fields)
            | shapes.DataclassType(fields=fields)
            | shapes.NamedTupleType(fields=fields)
        ):
            return _struct([(field.name, of(field.type)) for field in fields], getattr)
    raise _NoSparkType


def _array(item: SparkType, listed: Callable[[Iterable[Any]], list[Any]]) -> SparkType:
    write = _nullable(item.write)
    return SparkType(
        f"ARRAY<{item.ddl}>", pa.list_(item.arrow), lambda values: [write(value) for value in listed(values)]
    )


def _map(key: SparkType, value: SparkType) -> SparkType:
    write_key, write = _nullable(key.write), _nullable(value.write)
    return SparkType(
        f"MAP<{key.ddl}, {value.ddl}>",
        pa.map_(key.arrow, value.arrow),
        lambda entries: [(write_key(name), write(part)) for name, part in entries.items()],
    )


def _struct(fields: Sequence[tuple[str, SparkType]], get: Callable[[Any, str], Any]) -> SparkType:
    if not fields:
        raise _NoSparkType(": it has no fields")
    writes = [(name, _nullable(kind.write)) for name, kind in fields]
    ddl = ", ".join(f"{quoted(name)}: {kind.ddl}" for name, kind in fields)
    return SparkType(
        f"STRUCT<{ddl}>",
        pa.struct([(name, kind.arrow) for name, kind in fields]),
        lambda value: {name: write(get(value, name)) for name, write in writes},
    )


def _nullable(write: Convert | None) -> Convert:
    if write is None:
        return lambda value: value
    return lambda value: None if value is None else write(value)
