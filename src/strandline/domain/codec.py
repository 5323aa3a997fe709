"""JSON of typed events. The one place that knows how a TagId, which is a str, gets in and out of JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from ..errors import InvalidEvent
from ..tag_id import TagId


def _encode_other(value: Any) -> Any:
    if isinstance(value, str):  # msgspec leaves subclasses of str to us
        return str.__str__(value)
    raise InvalidEvent(
        f"a {type(value).__name__} has no JSON form",
        hint="give the field a type that has one: text, numbers, lists, dates, dataclasses, msgspec.Struct",
    )


def _decode_other(kind: type[Any], value: Any) -> Any:
    if isinstance(kind, type) and issubclass(kind, TagId):
        return kind(value)
    raise InvalidEvent(f"a {kind} cannot be read from JSON")


_ENCODER = msgspec.json.Encoder(enc_hook=_encode_other)


def encode(value: object) -> bytes:
    """A value as JSON."""
    return _ENCODER.encode(value)


def decoder(kind: type[Any]) -> msgspec.json.Decoder[Any]:
    """Reads values of this type from JSON."""
    return msgspec.json.Decoder(kind, dec_hook=_decode_other)


def convert(value: Any, kind: type[Any]) -> Any:
    """A decoded JSON value as a typed one."""
    return msgspec.convert(value, kind, dec_hook=_decode_other)
