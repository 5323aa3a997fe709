"""Events of one type as rows of its silver table: a column for each field, and one for what columns do not carry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ...domain import codec
from ...domain.event import VERSION, DomainEvent, _version_of
from ...domain.event_shape import event_shape
from ...errors import InvalidEvent
from ...event import SequencedEvent, encode_metadata
from ...tag_id import as_json
from .kinds import Column, to_column

POSITION = "_position"
REST = "_rest"
DATA = "_data"

_BEFORE = {"_position": "position", "_recorded_at": "recorded_at", "_tags": "tags"}
_AFTER = {"_id": "id", "_stream": "stream", "_subject": "subject", "_metadata": "metadata"}
OWN_COLUMNS = (*_BEFORE, *_AFTER, REST, DATA)
"""What every silver table has besides the fields of its events."""

_NOT_JSON = (msgspec.MsgspecError, UnicodeError, RecursionError)
_AS_THEY_ARE = (bytes, datetime, date, Decimal)


class Row(msgspec.Struct):
    """An event's data: its fields as columns show them and as they were written, what else there is, or raw bytes."""

    shown: dict[str, Any]
    written: dict[str, Any]
    rest: dict[str, Any]
    raw: bytes | None = None


Read = Callable[[bytes, str | None], Row]


def decoded(data: bytes) -> dict[str, Any] | None:
    """The fields of an event's data, None if it is no JSON object."""
    try:
        value = msgspec.json.decode(data)
    except _NOT_JSON:
        return None
    return value if isinstance(value, dict) else None


class Silver:
    """Makes rows of events of one type."""

    def __init__(self, columns: Sequence[Column], cls: type[DomainEvent] | None) -> None:
        self._columns = columns
        self._read: Read = _plain(columns) if cls is None else _typed(cls)

    def rows(self, events: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch of such events, in its order."""
        versions = pc.map_lookup(events["metadata"], pa.scalar(VERSION), "last").to_pylist()
        rows = [*map(self._read, events["data"].to_pylist(), versions)]
        shown = {column.name: self._column(column, rows) for column in self._columns}
        arrays = {
            **{name: events[source] for name, source in _BEFORE.items()},
            **shown,
            **{name: events[source] for name, source in _AFTER.items()},
            REST: pa.array(
                [codec.encode(row.rest).decode() if row.rest else None for row in rows], pa.string()
            ),
            DATA: pa.array([row.raw for row in rows], pa.binary()),
        }
        return pa.record_batch(arrays)

    def _column(self, column: Column, rows: Sequence[Row]) -> pa.Array:
        field = column.field
        array, misfits = to_column(column.kind, [row.shown.get(field) for row in rows])
        for index in misfits:
            row = rows[index]
            row.rest[field] = row.written.get(field, row.shown[field])
        return array


def _plain(columns: Sequence[Column]) -> Read:
    known = {column.field for column in columns}

    def read(data: bytes, version: str | None) -> Row:
        fields = decoded(data)
        if fields is None:
            return Row({}, {}, {}, data)
        return Row(fields, fields, _without(fields, known))

    return read


def _typed(cls: type[DomainEvent]) -> Read:
    known = {*cls.__struct_encode_fields__}
    decode, current = event_shape(cls).decoder.decode, str(cls.event_version)

    def read(data: bytes, version: str | None) -> Row:
        fields = decoded(data)
        if fields is None:
            return Row({}, {}, {}, data)
        try:
            if (version or "1") == current:
                event = decode(data)
            else:
                fields = _upcast(cls, data, version)
                event = codec.convert(fields, cls)
        except (InvalidEvent, *_NOT_JSON):
            return Row({}, fields, dict(fields))  # it does not fit its class: nothing is shown, all is kept
        shown = msgspec.to_builtins(event, builtin_types=_AS_THEY_ARE, str_keys=True, enc_hook=as_json)
        return Row(shown, fields, _unseen(fields, shown, known))

    return read


def _upcast(cls: type[DomainEvent], data: bytes, version: str | None) -> dict[str, Any]:
    metadata = encode_metadata({VERSION: version} if version else {})
    event = SequencedEvent(0, cls.event_type, data, "", None, None, bytes(16), metadata, 0)
    fields: dict[str, Any] = cls._upcast(event, _version_of(event))
    return fields


def _without(fields: dict[str, Any], known: set[str]) -> dict[str, Any]:
    if fields.keys() <= known:
        return {}
    return {name: value for name, value in fields.items() if name not in known}


def _unseen(written: dict[str, Any], shown: dict[str, Any], known: set[str]) -> dict[str, Any]:
    """The fields that a class does not know, and those that have something inside which it does not know."""
    return {
        name: value
        for name, value in written.items()
        if name not in known or (isinstance(value, (dict, list)) and not _covers(shown[name], value))
    }


def _covers(shown: Any, written: Any) -> bool:
    if isinstance(written, dict):
        if not isinstance(shown, dict):
            return False
        return all(name in shown and _covers(shown[name], value) for name, value in written.items())
    if isinstance(written, list):
        if not isinstance(shown, (list, tuple)) or len(shown) != len(written):
            return False
        return all(map(_covers, shown, written))
    return True
