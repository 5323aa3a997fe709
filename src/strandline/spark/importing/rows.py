"""Rows of a DataFrame as events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    CalendarIntervalType,
    DataType,
    MapType,
    NullType,
    StringType,
    StructType,
    VariantType,
    YearMonthIntervalType,
)

from ...append import MAX_DATA_BYTES, check_size
from ...errors import InvalidEvent, InvalidInput, StrandlineError
from ...event import TRACKING, Event
from ...names import RETAGGED
from ..staging.piece import Piece, PieceWriter
from ..staging.source import Settings, StagingSource
from .columns import SCHEMA, Numbered, columns_of

if TYPE_CHECKING:
    import pyarrow as pa

_TEXT = "STRING"
KINDS = {
    "type": _TEXT,
    "data": "STRING (the JSON text) or BINARY",
    "data_bytes": "BINARY (data that is no text, in bronze)",
    "tags": "ARRAY<STRING>",
    "id": _TEXT,
    "metadata": "MAP<STRING,STRING>",
    "stream": _TEXT,
    "subject": _TEXT,
    "key": _TEXT,
}
OF_THE_LOG = ("position", "recorded_at")  # a log gives new ones
_UNSORTABLE = (
    ArrayType,
    CalendarIntervalType,
    MapType,
    NullType,
    StructType,
    VariantType,
    YearMonthIntervalType,
)


class Rows(StagingSource):
    """Stages rows that Spark sorted: the tasks follow each other in the order of their numbers."""

    label = "rows"

    @classmethod
    def stage(cls, batches: Iterable[pa.RecordBatch], folder: str, settings: Settings) -> Iterator[Piece]:
        context = TaskContext.get()
        key = (context.partitionId() if context else 0,)
        piece, file, reader = Piece(key, key), PieceWriter(folder, SCHEMA), RowReader(**settings)
        for batch in batches:
            events = [event for _, event in reader.events(batch, piece)]
            file.write(columns_of(events))
            piece.staged += len(events)
        piece.path = file.close()
        yield piece


class RowReader:
    """Makes events of rows."""

    def __init__(
        self, order_by: str, *, max_data_bytes: int = MAX_DATA_BYTES, original_time: str | None = None
    ) -> None:
        self._order = order_by
        self._max_data_bytes = max_data_bytes
        self._time_name = original_time

    def events(self, batch: pa.RecordBatch, piece: Piece) -> Iterator[tuple[Any, Numbered]]:
        """The events with what they are sorted by; the piece is told of rows that are none."""
        columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
        for values in zip(*columns.values(), strict=True):
            row = dict(zip(columns, values, strict=True))
            order = row[self._order]
            piece.rows += 1
            if row["type"] == RETAGGED:
                piece.skipped += 1
                continue
            try:
                self._check_order(order)
                event = self._event(row)
            except StrandlineError as error:
                piece.refuse(f"the row with {self._order} {order!r:.60}: {error}")
            else:
                yield order, Numbered(piece.rows, event, row.get("id") is not None)

    @staticmethod
    def _check_order(value: object) -> None:
        if value is None or value != value:  # noqa: PLR0124  (so NaN is known)
            raise InvalidInput(
                "there is no order without a value to sort by", hint="leave the row out, or fill the column"
            )

    def _event(self, row: Mapping[str, Any]) -> Event:
        data = row["data"] if row["data"] is not None else row.get("data_bytes")
        if data is None:
            raise InvalidEvent("an event has data, and this is null", hint="null as JSON is the text 'null'")
        metadata = dict(row.get("metadata") or ())
        metadata.pop(TRACKING, None)  # like a position, it belongs to the log that the row was read from
        when = row.get("recorded_at")
        if self._time_name and when is not None:
            told = when.isoformat().replace("+00:00", "Z") if isinstance(when, datetime) else str(when)
            metadata.setdefault(self._time_name, told)
        event = Event(
            row["type"],
            data.encode() if isinstance(data, str) else bytes(data),
            tags=row.get("tags") or (),
            id=row.get("id"),
            metadata=metadata,
            stream=row.get("stream"),
            subject=row.get("subject"),
        )
        check_size((event,), self._max_data_bytes)
        return event if row.get("key") is None else event.with_key(row["key"])


def check_columns(schema: StructType, order_by: str | None) -> str:
    """The name of the column to sort by, if events can be made of such rows in its order."""
    names = schema.names
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidInput(f"several columns are called {', '.join(twice)}", hint="rename or drop some")
    if order_by is None or order_by not in names:
        wanted = "nothing says by which column" if order_by is None else f"there is no column {order_by}"
        raise InvalidInput(
            f"events are appended in an order, and {wanted}",
            hint=f"let orderBy (order_by) name one of: {', '.join(names)}",
        )
    if isinstance(schema[order_by].dataType, _UNSORTABLE):
        raise InvalidInput(
            f"rows cannot be sorted by {order_by}, a {schema[order_by].dataType.simpleString():.60}",
            hint="sort by a number, a time or text",
        )
    _check_kinds(schema, order_by)
    return order_by


def _check_kinds(schema: StructType, order_by: str) -> None:
    missing = [name for name in ("type", "data") if name not in schema.names]
    unknown = [name for name in schema.names if name not in {*KINDS, *OF_THE_LOG, order_by}]
    if missing or unknown:
        wrong = [f"{name} is missing" for name in missing] + [f"{name} is unknown" for name in unknown]
        raise InvalidInput(
            f"these are not the columns of events: {', '.join(wrong)}",
            hint=f"select and rename to: {', '.join(KINDS)}",
        )
    for name in schema.names:
        if name in KINDS and not _fits(name, schema[name].dataType):
            raise InvalidInput(
                f"the column {name} is {schema[name].dataType.simpleString():.60}, not {KINDS[name]}",
                hint="data of other types: to_json(data)" if name == "data" else f"cast it to {KINDS[name]}",
            )


def _fits(name: str, kind: DataType) -> bool:
    match name, kind:
        case "data", StringType() | BinaryType():
            return True
        case "data_bytes", BinaryType():
            return True
        case "tags", ArrayType():
            return isinstance(kind.elementType, StringType)
        case "metadata", MapType():
            return isinstance(kind.keyType, StringType) and isinstance(kind.valueType, StringType)
        case (("data" | "data_bytes" | "tags" | "metadata"), _):
            return False
    return isinstance(kind, StringType)
