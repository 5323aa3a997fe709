"""Events as CloudEvents."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import msgspec

from ..errors import InvalidEvent
from ..event import Event, SequencedEvent
from ..names import an
from .attributes import OURS, TAGS, check_text, foreign_id, is_json, is_kept, is_name, rfc3339

SOURCE = "strandline"

_GREATEST_INTEGER = 2**31 - 1


def to_cloudevent(event: Event | SequencedEvent, *, source: str = SOURCE) -> dict[str, Any]:
    """The event as a CloudEvent: a dict that `json.dumps` turns into structured mode JSON.

    An event that came from a CloudEvent keeps the source, id and time that it had there; `source` is
    that of all others.
    """
    if not isinstance(event, (Event, SequencedEvent)):
        raise InvalidEvent(
            f"{an(type(event).__name__)} is no event of a log", hint="pass an Event: event.to_event()"
        )
    ours = {"id": str(event.id), "metadata": event.metadata}
    attributes = {"source": check_text(source, "source"), "id": str(event.id)} | _kept_in_metadata(event)
    attributes |= {"specversion": "1.0", "type": event.type, OURS: json.dumps(ours, sort_keys=True)}
    if event.tags:
        attributes[TAGS] = json.dumps(event.tags)
    if event.subject is not None:
        attributes["subject"] = event.subject
    if event.stream is not None:
        attributes["streamid"] = event.stream
    return attributes | _place(event, attributes) | _data(event.data, attributes.get("datacontenttype"))


def _kept_in_metadata(event: Event | SequencedEvent) -> dict[str, str]:
    """The attributes of an event that came from elsewhere: its id tells."""
    match event.metadata:
        case {"source": source, "id": id} if foreign_id(source, id) == event.id:
            kept = event.metadata.items()
            return {name: text for name, text in kept if is_name(name) and is_kept(name, text)}
    return {}


def _place(event: Event | SequencedEvent, attributes: Mapping[str, str]) -> dict[str, Any]:
    """Where in its log the event is, and since when; the version of a stream is a position, too."""
    if not isinstance(event, SequencedEvent):
        return {}
    # An Integer of CloudEvents has 32 bits; whatever is more goes as text.
    position = event.position if event.position <= _GREATEST_INTEGER else str(event.position)
    place: dict[str, Any] = {"position": position, "time": attributes.get("time", rfc3339(event.recorded_at))}
    return place if event.stream is None else place | {"streamversion": position}


def _data(data: bytes, media_type: str | None) -> dict[str, Any]:
    """JSON as a value if the same bytes can be made of it again, else Base64; no data is none."""
    if not data:
        return {}
    value, can_be_value = _value(data)
    known_type = media_type or ("application/json" if can_be_value else "application/octet-stream")
    if can_be_value and is_json(known_type) and value is not None and msgspec.json.encode(value) == data:
        return {"datacontenttype": known_type, "data": value}
    return {"datacontenttype": known_type, "data_base64": base64.b64encode(data).decode()}


def _value(data: bytes) -> tuple[Any, bool]:
    try:
        return msgspec.json.decode(data), True
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None, False
