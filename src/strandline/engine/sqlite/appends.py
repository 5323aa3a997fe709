"""Recorded appends, read back."""

from __future__ import annotations

import msgspec

from ...append import AppendCondition, RecordedAppend
from ...errors import CorruptLog
from ...event import from_microseconds
from .conditions import JSON, status_of, unpack
from .connection import Connection
from .names import Names
from .statements import sql

_APPENDS_AFTER = sql("appends_after")
_SHAPE_BY_ID = sql("shape_by_id")
# What it may raise to read something else than what was written.
_UNREADABLE = (ValueError, TypeError, AttributeError, StopIteration, msgspec.DecodeError)


def recorded_appends(connection: Connection, names: Names, after: int, size: int) -> list[RecordedAppend]:
    """At most `size` recorded appends with `first > after`, in order."""
    found = []
    for first, last, shape, arguments, recorded_at in connection.rows(_APPENDS_AFTER, (after, size)):
        status = status_of(shape)
        condition = _condition(connection, names, first, shape, arguments) if status == "recorded" else None
        found.append(RecordedAppend(first, last, condition, status, from_microseconds(recorded_at)))
    return found


def _condition(
    connection: Connection, names: Names, first: int, shape: int, arguments: str
) -> AppendCondition:
    try:
        ((text,),) = connection.rows(_SHAPE_BY_ID, (shape,))
        shape_text = None if shape == JSON else text
        return unpack(first, shape_text, arguments, lambda number: names.text(connection, number))
    except _UNREADABLE as error:
        raise CorruptLog(f"the condition of the append at {first} cannot be read: {error!r}") from error
