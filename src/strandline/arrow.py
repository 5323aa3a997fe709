"""Events as Arrow columns: those of `read.arrow()`, and those that Spark expects."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from .engine.scan import COLUMNS
from .errors import InvalidEvent
from .event import SequencedEvent, own_tags
from .lines import ID_LENGTH, join_ids
from .names import RESERVED

Raw = dict[str, Any]
"""Arrow arrays by name: tags joined by newlines, ids as text, times in microseconds, metadata as JSON."""

_RESERVED = re.compile(re.escape(RESERVED.encode()))

SCHEMA = pa.schema(
    [
        ("position", pa.int64()),
        ("id", pa.string()),
        ("type", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("stream", pa.string()),
        ("subject", pa.string()),
        ("data", pa.binary()),
        ("metadata", pa.map_(pa.string(), pa.string())),
        ("recorded_at", pa.timestamp("us", tz="UTC")),
    ]
)
KEPT_AS = {
    "position": pa.int64(),
    "type": pa.string(),
    "data": pa.binary(),
    "tags": pa.string(),
    "stream": pa.string(),
    "subject": pa.string(),
    "id": pa.string(),
    "metadata": pa.binary(),
    "recorded_at": pa.int64(),
}


def batch_of_events(events: Sequence[SequencedEvent]) -> pa.RecordBatch:
    """A batch with a row for each event."""
    if not events:
        return pa.RecordBatch.from_pylist([], schema=SCHEMA)
    return batch_of(raw_columns(map(msgspec.structs.astuple, events)), SCHEMA)


def batch_of(raw: Raw, schema: pa.Schema) -> pa.RecordBatch:
    """The batch that a schema asks for: every column in its exact type."""
    columns = [_MADE[field.name](raw, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def raw_columns(rows: Iterable[Sequence[Any]], names: Sequence[str] = COLUMNS) -> Raw:
    """Rows of a database, with ids as bytes, as columns."""
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    return {
        name: _ids(column) if name == "id" else pa.array(column, KEPT_AS[name])
        for name, column in columns.items()
    }


def _ids(raw: Sequence[bytes]) -> pa.Array:
    """Ids as text, in one buffer: to make them one by one would take as long as all other columns."""
    ends = pa.array(range(0, ID_LENGTH * len(raw) + 1, ID_LENGTH), pa.int32())
    return pa.StringArray.from_buffers(len(raw), ends.buffers()[1], pa.py_buffer(join_ids(raw)))


def _as_kept(name: str) -> Callable[[Raw, pa.DataType], Any]:
    return lambda raw, kind: raw[name].cast(kind)


def _tags(raw: Raw, kind: pa.DataType) -> Any:
    texts = raw["tags"]
    if _has_reserved(texts):
        return pa.array([own_tags(text) for text in texts.to_pylist()], kind)
    lists = tag_lists(texts)
    return pa.ListArray.from_arrays(lists.offsets, lists.values, type=kind)


def tag_lists(texts: pa.Array) -> pa.ListArray:
    """Tags that are joined by newlines, one by one; null if there is none."""
    import pyarrow.compute as pc  # which takes its time, and who plans a read does not need it

    # No tags is the empty text, of which splitting would make one empty tag; of a null it makes no element at all.
    return pc.split_pattern(pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts), "\n")


def _has_reserved(texts: pa.Array) -> bool:
    """Whether there is the mark anywhere: one search through all bytes, for it hardly ever is there."""
    content = texts.buffers()[2]
    return content is not None and _RESERVED.search(content) is not None


def _data(raw: Raw, kind: pa.DataType) -> Any:
    try:
        return raw["data"].cast(kind)
    except pa.ArrowInvalid:
        position = _first_that_is_no_text(raw)
    raise InvalidEvent(
        f"the data of event {position} is not UTF-8, so it is no STRING",
        hint='ask for bytes, for example .schema("position BIGINT, type STRING, data BINARY")',
    )


def _first_that_is_no_text(raw: Raw) -> int:
    for position, data in zip(raw["position"].to_pylist(), raw["data"].to_pylist(), strict=True):
        try:
            data.decode()
        except UnicodeDecodeError:
            return int(position)
    raise AssertionError("all data is text")


def _metadata(raw: Raw, kind: pa.MapType) -> Any:
    texts = raw["metadata"]
    if texts.null_count == len(texts):
        nothing = pa.array([], pa.string())
        starts = pa.repeat(pa.scalar(0, pa.int32()), len(texts) + 1)
        return pa.MapArray.from_arrays(starts, nothing, nothing).cast(kind)
    decode = msgspec.json.Decoder(dict[str, str]).decode
    return pa.array([[*decode(text).items()] if text else [] for text in texts.to_pylist()], kind)


_MADE: dict[str, Callable[[Raw, Any], Any]] = {
    **{name: _as_kept(name) for name in COLUMNS},
    "tags": _tags,
    "data": _data,
    "metadata": _metadata,
}
