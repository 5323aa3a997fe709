"""What a column of a silver table is, and which values it carries exactly."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal

import msgspec
import pyarrow as pa

from ...domain import codec

Name = Literal[
    "bool",
    "int",
    "float",
    "text",
    "bytes",
    "time",
    "date",
    "decimal",
    "json",
    "list",
    "map",
    "struct",
    "null",
]

_LONGEST_NUMBER = 1 << 63
_WHOLE_IN_FLOAT = 1 << 53
_DECIMAL = pa.decimal128(38, 18)  # what Spark makes of Python's decimals
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


class Misfit(Exception):
    """A value that a column cannot carry exactly."""


class Kind(msgspec.Struct, frozen=True, omit_defaults=True):
    """A type of column. `null` is that of a field in which no value was seen yet."""

    name: Name
    item: Kind | None = None  # of a list, or the values of a map
    fields: dict[str, Kind] = {}  # of a struct


JSON = Kind("json")
NULL = Kind("null")


class Column(msgspec.Struct, frozen=True):
    """A column of a silver table, and the field of the event's data that it shows."""

    name: str
    field: str
    kind: Kind


def columns_of(fields: Mapping[str, Kind], taken: Iterable[str]) -> list[Column]:
    """A column for each field, under a name that every reader accepts and that is no other's, in any case."""
    used, columns = {name.lower() for name in taken}, []
    for field, kind in fields.items():
        name = _UNSAFE.sub("_", field) or "_"
        while name.lower() in used:
            name += "_"
        used.add(name.lower())
        columns.append(Column(name, field, kind))
    return columns


def are_plain_names(names: Iterable[str]) -> bool:
    """Whether all may be names of columns as they are."""
    listed = list(names)
    plain = all(name and not _UNSAFE.search(name) for name in listed)
    return plain and len({name.lower() for name in listed}) == len(listed)


def arrow_type(kind: Kind) -> pa.DataType:
    """How Arrow and Parquet have it."""
    match kind:
        case Kind(name="list", item=Kind() as item):
            return pa.list_(arrow_type(item))
        case Kind(name="map", item=Kind() as item):
            return pa.map_(pa.string(), arrow_type(item))
        case Kind(name="struct"):
            return pa.struct([(name, arrow_type(field)) for name, field in kind.fields.items()])
    return _SCALARS[kind.name][0]


def to_column(kind: Kind, values: Sequence[Any]) -> tuple[pa.Array, list[int]]:
    """The values as a column, and where in it something is missing because it did not fit."""
    if _are_plain(kind, values):
        try:
            return pa.array(values, arrow_type(kind)), []
        except (ValueError, OverflowError):
            pass  # one of them is too large, or no text
    fitted, misfits = [], []
    for index, value in enumerate(values):
        try:
            fitted.append(fit(kind, value))
        except Misfit:
            fitted.append(None)
            misfits.append(index)
    return pa.array(fitted, arrow_type(kind)), misfits


def fit(kind: Kind, value: Any) -> Any:
    """The value as Arrow takes it for this kind of column; raises `Misfit`."""
    if value is None:
        return None
    match kind:
        case Kind(name="list", item=Kind() as item) if isinstance(value, (list, tuple)):
            return [fit(item, each) for each in value]
        case Kind(name="map", item=Kind() as item) if isinstance(value, dict):
            return [(_text(name), fit(item, each)) for name, each in value.items()]
        case Kind(name="struct") if isinstance(value, dict) and value.keys() <= kind.fields.keys():
            return {name: fit(field, value.get(name)) for name, field in kind.fields.items()}
        case Kind(name="list" | "map" | "struct"):
            raise Misfit
    return _SCALARS[kind.name][1](value)


def _are_plain(kind: Kind, values: Sequence[Any]) -> bool:
    """Whether Arrow may take them as they are: looked at all at once, for most columns are."""
    plain = _PLAIN.get(kind.name)
    return plain is not None and {*map(type, values)} <= plain


def _bool(value: Any) -> bool:
    if type(value) is not bool:
        raise Misfit
    return value


def _int(value: Any) -> int:
    if type(value) is not int or not -_LONGEST_NUMBER <= value < _LONGEST_NUMBER:
        raise Misfit
    return value


def _float(value: Any) -> float:
    if type(value) is int and -_WHOLE_IN_FLOAT <= value <= _WHOLE_IN_FLOAT:
        return float(value)
    if type(value) is not float:
        raise Misfit
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Misfit
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Misfit from None
    return value


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise Misfit
    return value


def _time(value: Any) -> datetime:
    if not isinstance(value, datetime) or value.tzinfo is None:  # without a zone it is no instant
        raise Misfit
    return value


def _date(value: Any) -> date:
    if not isinstance(value, date) or isinstance(value, datetime):
        raise Misfit
    return value


def _decimal(value: Any) -> Decimal:
    try:
        pa.scalar(value, _DECIMAL)
    except (pa.ArrowException, ValueError):
        raise Misfit from None
    if not isinstance(value, Decimal):
        raise Misfit
    return value


def _json(value: Any) -> str:
    return codec.encode(value).decode()


_SCALARS: dict[str, tuple[pa.DataType, Callable[[Any], Any]]] = {
    "bool": (pa.bool_(), _bool),
    "int": (pa.int64(), _int),
    "float": (pa.float64(), _float),
    "text": (pa.string(), _text),
    "bytes": (pa.binary(), _bytes),
    "time": (pa.timestamp("us", "UTC"), _time),
    "date": (pa.date32(), _date),
    "decimal": (_DECIMAL, _decimal),
    "json": (pa.string(), _json),
}
_PLAIN: dict[str, set[type]] = {
    "bool": {bool, type(None)},
    "int": {int, type(None)},
    "float": {float, type(None)},
    "text": {str, type(None)},
}
