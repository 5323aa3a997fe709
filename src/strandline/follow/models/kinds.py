"""What a field is in a SQL table: the type of its column, and which values the column carries exactly."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, NamedTuple
from uuid import UUID

from ...domain.annotations import alternatives
from ...tag_id import TagId

Dialect = Literal["sqlite", "postgres"]
Convert = Callable[[Any], Any]

_LONGEST_NUMBER = 1 << 63
_WHOLE_IN_FLOAT = 1 << 53


def _as_it_is(value: Any) -> Any:
    return value


class Kind(NamedTuple):
    """A type of column. What does not fit is kept elsewhere; `near` is what the column has for it then."""

    sql: str
    fits: Callable[[Any], bool]
    write: Convert = _as_it_is
    read: Convert = _as_it_is
    near: Convert = lambda _: None


def kind_of(annotation: Any, dialect: Dialect) -> Kind | None:
    """The column of a scalar, which may be optional; None for what has parts."""
    found = [kind for kind in alternatives(annotation) if kind is not type(None)]
    if len(found) != 1 or not isinstance(found[0], type):
        return None
    cls = found[0]
    if issubclass(cls, Enum):
        return _of_enum(cls)
    if issubclass(cls, TagId):
        return Kind("text", lambda value: type(value) is cls and _is_text(value), str.__str__, cls)
    return (_SQLITE if dialect == "sqlite" else _POSTGRES).get(cls)


def _of_enum(cls: type[Enum]) -> Kind | None:
    values = [member.value for member in cls]
    if values and all(type(value) is str and _is_text(value) for value in values):
        return Kind("text", lambda value: isinstance(value, cls), _value_of, cls)
    if values and all(map(_is_number, values)):
        return Kind("bigint", lambda value: isinstance(value, cls), _value_of, cls)
    return None


def _value_of(member: Enum) -> Any:
    return member.value


def _is_text(value: str) -> bool:
    if "\0" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_number(value: Any) -> bool:
    return type(value) is int and -_LONGEST_NUMBER <= value < _LONGEST_NUMBER


def _is_float(value: Any) -> bool:
    if type(value) is int:  # equal to what comes back
        return -_WHOLE_IN_FLOAT <= value <= _WHOLE_IN_FLOAT
    return type(value) is float and math.isfinite(value) and (value != 0 or math.copysign(1, value) > 0)


def _is_time(value: Any) -> bool:
    return type(value) is datetime and value.tzinfo is UTC and 1 < value.year < 9_999


def _is_decimal(value: Any) -> bool:
    if type(value) is not Decimal or not value.is_finite():
        return False
    exponent = value.as_tuple().exponent
    is_minus_zero = value.is_zero() and value.is_signed()
    return isinstance(exponent, int) and -1_000 < exponent <= 0 and not is_minus_zero


def _near_time(value: Any) -> datetime | None:
    if not isinstance(value, datetime) or value.tzinfo is None or not 1 < value.year < 9_999:
        return None
    return value.astimezone(UTC)


def _near_float(value: Any) -> float | None:
    return float(value) if isinstance(value, Decimal) and value.is_finite() else None


def _time_text(value: datetime) -> str:
    return value.isoformat(timespec="microseconds")


def _near_time_text(value: Any) -> str | None:
    near = _near_time(value)
    return None if near is None else _time_text(near)


def _in_utc(value: datetime) -> datetime:
    return value.astimezone(UTC)


_SAME = {
    int: Kind("bigint", _is_number),
    str: Kind("text", lambda value: type(value) is str and _is_text(value)),
}
_SQLITE: dict[type, Kind] = {
    **_SAME,
    float: Kind("real", _is_float, float),
    bool: Kind("boolean", lambda value: type(value) is bool, int, bool),
    bytes: Kind("blob", lambda value: type(value) is bytes),
    datetime: Kind("text", _is_time, _time_text, datetime.fromisoformat, _near_time_text),
    Decimal: Kind(
        "real", lambda _: False, near=_near_float
    ),  # to compare with; the number itself is kept exactly
    UUID: Kind("text", lambda value: type(value) is UUID, str, UUID),
}
_POSTGRES: dict[type, Kind] = {
    **_SAME,
    float: Kind("double precision", _is_float, float),
    bool: Kind("boolean", lambda value: type(value) is bool),
    bytes: Kind("bytea", lambda value: type(value) is bytes, read=bytes),
    datetime: Kind("timestamptz", _is_time, read=_in_utc, near=_near_time),
    Decimal: Kind("numeric", _is_decimal),
    UUID: Kind("uuid", lambda value: type(value) is UUID),
}
