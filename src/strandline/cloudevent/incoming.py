"""CloudEvents as events."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Protocol
from uuid import UUID

import msgspec

from ..errors import InvalidEvent
from ..event import Event
from ..names import an
from .attributes import (
    OURS,
    SHAPE,
    TAGS,
    bad_attribute,
    canonical,
    check_text,
    check_time,
    foreign_id,
    is_json,
    is_kept,
    is_name,
    tag_list,
    utf8,
)

_DATA = ("data", "data_base64")


class CloudEventObject(Protocol):
    """An event of the `cloudevents` package: one of its core classes, or of those of its first version."""

    def get_attributes(self) -> Mapping[str, Any]:
        """The attributes, extensions included."""
        ...

    def get_data(self) -> Any:
        """The data."""
        ...


def from_cloudevent(cloudevent: Mapping[str, Any] | str | bytes | CloudEventObject) -> Event:
    """The event of a CloudEvent: of its fields, of their JSON, or of an object of the `cloudevents` package.

    An event that was not written by `to_cloudevent` gets an id that is made of its source and id, so that it
    is never written twice; attributes that an `Event` has no place for are in its metadata.
    """
    fields = _fields(cloudevent)
    attributes = _attributes(fields)
    id, metadata = _identity(attributes)
    return Event(
        attributes["type"],
        _data(fields, attributes.get("datacontenttype")),
        tags=_tags(attributes, metadata),
        id=id,
        metadata=metadata,
        stream=attributes.get("streamid"),
        subject=attributes.get("subject"),
    )


def _fields(cloudevent: Mapping[str, Any] | str | bytes | CloudEventObject) -> Mapping[Any, Any]:
    fields: object = cloudevent
    if isinstance(cloudevent, (str, bytes, bytearray)):
        try:
            fields = msgspec.json.decode(cloudevent)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise InvalidEvent(f"not the JSON of a CloudEvent: {error}", hint=SHAPE) from error
    elif hasattr(cloudevent, "get_attributes") and hasattr(cloudevent, "get_data"):
        fields = {**cloudevent.get_attributes(), "data": cloudevent.get_data()}
    if not isinstance(fields, Mapping):
        raise InvalidEvent(f"{an(type(fields).__name__)} is no CloudEvent", hint=SHAPE)
    return fields


def _attributes(fields: Mapping[Any, Any]) -> dict[str, str]:
    """The attributes as text; those that are null are not there."""
    given = {name: value for name, value in fields.items() if value is not None and name not in _DATA}
    for name in given:
        if not is_name(name):
            raise InvalidEvent(
                f"{name!r:.60} is no name of a CloudEvents attribute",
                hint="names have lower-case letters and digits; what is more complicated belongs into the data",
            )
    for name in ("specversion", "id", "source", "type"):
        check_text(given.get(name), name)
    attributes = {name: canonical(name, value) for name, value in given.items()}
    if attributes["specversion"] != "1.0":
        raise InvalidEvent(
            f"this is CloudEvents {attributes['specversion']!r:.40}", hint='specversion must be "1.0"'
        )
    if "time" in attributes:
        check_time(attributes["time"])
    return attributes


def _identity(attributes: Mapping[str, str]) -> tuple[UUID | str, dict[str, str]]:
    """The id and the metadata: as they were if the event is one of ours, else of the attributes."""
    id = foreign_id(attributes["source"], attributes["id"])
    if OURS in attributes:
        match _decoded(attributes, OURS):
            case {"id": str(own), "metadata": dict(metadata)}:
                if own in (attributes["id"], str(id)):  # else somebody made another event of ours
                    return own, metadata
            case _:
                raise bad_attribute(OURS, "is not what to_cloudevent writes")
    return id, {name: text for name, text in attributes.items() if is_kept(name, text)}


def _tags(attributes: Mapping[str, str], metadata: Mapping[str, str]) -> list[str]:
    text = attributes.get(TAGS)
    tags = [] if text is None else tag_list(text)
    if tags is None and metadata.get(TAGS) != text:
        raise bad_attribute(TAGS, "is no JSON list of texts")
    return tags or []


def _decoded(attributes: Mapping[str, str], name: str) -> Any:
    try:
        return msgspec.json.decode(attributes[name])
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise bad_attribute(name, f"is not JSON: {error}") from error


def _data(fields: Mapping[Any, Any], media_type: str | None) -> Any:
    """The data as an `Event` takes it: a JSON value, or bytes; none is empty."""
    data, encoded = (fields.get(name) for name in _DATA)
    if encoded is None:
        is_other_text = isinstance(data, str) and not is_json(media_type)
        return b"" if data is None else utf8(data) if is_other_text else data
    if data is not None:
        raise InvalidEvent("a CloudEvent has data or data_base64, not both", hint="drop one of them")
    try:
        return base64.b64decode(encoded, validate=True)
    except (TypeError, ValueError) as error:
        raise InvalidEvent(f"data_base64 is not Base64: {error}", hint="encode the bytes again") from error
