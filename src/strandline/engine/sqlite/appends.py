"""Recorded appends, read back."""

from __future__ import annotations

import msgspec

from ...append import AppendCondition, RecordedAppend
from ...errors import CorruptLog
from ...event import from_microseconds
from ...names import MAX_POSITION
from .. import Span
from .conditions import JSON, status_of, unpack
from .connection import Connection
from .names import Names
from .statements import sql

_APPENDS = sql("appends_forward"), sql("appends_backward")
_APPEND_HOLDING = sql("append_holding")
_SHAPE_BY_ID = sql("shape_by_id")
# What it may raise to read something else than what was written.
_UNREADABLE = (ValueError, TypeError, AttributeError, StopIteration, msgspec.DecodeError)


def append_holding(connection: Connection, names: Names, position: int) -> RecordedAppend | None:
    """The recorded append that wrote a position."""
    for first, _ in connection.rows(_APPEND_HOLDING, (position,)):
        for append in recorded_appends(connection, names, Span(first - 1, first), 1):
            return append
    return None


def recorded_appends(connection: Connection, names: Names, span: Span, size: int) -> list[RecordedAppend]:
    """See `Engine.appends_page`."""
    until = MAX_POSITION if span.until is None else span.until
    found = []
    rows = connection.rows(_APPENDS[span.backwards], (span.after, until, size))
    for first, last, shape, arguments, recorded_at in rows:
        if not span.after < first <= last:
            raise CorruptLog(f"the append at {first} says that its last event is at {last}")
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
