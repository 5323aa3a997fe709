"""Events of a log as lines of JSON, many at a time."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, Raw, UnsetType

from .codec import decode_data
from .errors import InvalidEvent
from .names import RESERVED

if TYPE_CHECKING:
    from .event import SequencedEvent

DASHES = (8, 13, 18, 23)
ID_LENGTH = 36
FEW = 8
_NO_METADATA = Raw(b"{}")


class Line(msgspec.Struct, gc=False):
    """The JSON form of an event of a log. The fields are in the order of their names, as they are written."""

    data: Raw | UnsetType
    data_base64: str | UnsetType
    id: str
    key: str | UnsetType
    metadata: Raw | Mapping[str, str]
    position: int
    recorded_at: datetime
    stream: str | None
    subject: str | None
    tags: Sequence[str]
    tracking: tuple[str, int] | UnsetType
    type: str


class EventLine(msgspec.Struct, gc=False):
    """An event, for a stream whose lines may hold other things too."""

    event: Line


_encoder = msgspec.json.Encoder()
encode_line = _encoder.encode


def line_of(event: SequencedEvent, id: str) -> Line:
    """Return the form of an event whose id is this text."""
    data = data_of(event.data)
    raw_tags, raw_metadata = event.raw_tags, event.raw_metadata
    has_reserved = RESERVED in raw_tags
    key = event.key if has_reserved else None
    tracking = None if raw_metadata is None else event.tracking
    metadata = Raw(raw_metadata) if raw_metadata else _NO_METADATA
    return Line(
        UNSET if data is None else data,
        base64.b64encode(event.data).decode() if data is None else UNSET,
        id,
        UNSET if key is None else key,
        metadata if tracking is None else event.metadata,
        event.position,
        event.recorded_at,
        event.stream,
        event.subject,
        event.tags if has_reserved or not raw_tags else raw_tags.split("\n"),
        UNSET if tracking is None else tracking,
        event.type,
    )


def lines_of(events: Sequence[SequencedEvent]) -> list[Line]:
    """Return the forms of many events."""
    return list(map(line_of, events, id_texts(events)))


def encode_lines(events: Sequence[SequencedEvent]) -> bytes:
    """Return events as lines, newlines included."""
    return _encoder.encode_lines(lines_of(events))


def encode_event_lines(events: Sequence[SequencedEvent]) -> bytes:
    """Return lines with `{"event": …}`, newlines included."""
    return _encoder.encode_lines(list(map(EventLine, lines_of(events))))


def id_texts(events: Sequence[SequencedEvent]) -> Iterable[str]:
    """Return the ids of events as text."""
    raw = [event.raw_id for event in events]
    if len(raw) < FEW or any(type(each) is not bytes or len(each) != 16 for each in raw):
        return [str(event.id) for event in events]  # which says what is wrong, if something is
    texts = join_ids(raw).decode()
    return [texts[start : start + ID_LENGTH] for start in range(0, len(texts), ID_LENGTH)]


def join_ids(raw: Sequence[bytes]) -> bytes:
    """Return the texts of ids, one behind the other. It copies column by column, for all of them at once."""
    digits = b"".join(raw).hex().encode()
    texts = bytearray(b"-") * (ID_LENGTH * len(raw))
    places = (place for place in range(ID_LENGTH) if place not in DASHES)
    for digit, place in enumerate(places):
        texts[place::ID_LENGTH] = digits[digit::32]
    return bytes(texts)


def data_of(data: bytes) -> Raw | None:
    """Return data as a part of a line; None if a reader would not get the same bytes back, or if it would split it."""
    if not data or data.strip() != data or b"\n" in data or b"\r" in data:
        return None
    try:
        decode_data(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    except RecursionError as error:  # elsewhere it is JSON, and one event has one form
        raise InvalidEvent(
            "the event's data is nested too deeply to be looked at here",
            hint="call this with fewer calls under way, or raise sys.setrecursionlimit",
        ) from error
    return Raw(data)
