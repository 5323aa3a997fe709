"""JSON of typed events."""

from __future__ import annotations

import threading
from typing import Any

import msgspec

from ..codec import refuse_nan
from ..errors import InvalidEvent
from ..tag_id import as_json
from .usual import native

JSON_TYPES = (
    "give the field a type that has a JSON form: text, numbers, lists, dates, dataclasses, msgspec.Struct"
)


def _decode_other(kind: type[Any], value: Any) -> Any:
    # A TagId, for an event class has no other custom types. What its own __new__ looks at is known, and a fold makes many.
    if value.__class__ is str and value and kind is not object:
        return _new(kind, value)
    return value if kind is object else kind(value)


_new = str.__new__
_decode_custom = native.decode_tag_id if native else _decode_other


# msgspec works out a type when it is first used; if two threads do that at once, the process crashes (0.22).
working_out = threading.RLock()

_as_json = native.as_json if native else as_json
ENCODER = msgspec.json.Encoder(enc_hook=_as_json)
_IN_ORDER = msgspec.json.Encoder(enc_hook=_as_json, order="deterministic")


def encode(value: object, *, has_sets: bool = False) -> bytes:
    """A value as JSON; the same for the same sets, if their members have an order."""
    try:
        data = _ordered(value) if has_sets else ENCODER.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidEvent(f"{value!r:.80} cannot be written as JSON: {error}", hint=JSON_TYPES) from error
    if b"null" in data:
        refuse_nan(value, "data", InvalidEvent)
    return data


def _ordered(value: object) -> bytes:
    try:
        return _IN_ORDER.encode(value)
    except TypeError:  # members of a set that cannot be compared
        return ENCODER.encode(value)


def no_json_form(value: object) -> InvalidEvent:
    """The error for a value that JSON would change."""
    return InvalidEvent(
        f"{value!r:.80} does not come back from JSON as it was",
        hint=f"{JSON_TYPES}; and the type that it holds: list[StudentId], not list[str], for such ids",
    )


def decoder(kind: type[Any]) -> msgspec.json.Decoder[Any]:
    """Reads values of this type from JSON."""
    with working_out:
        return msgspec.json.Decoder(kind, dec_hook=_decode_custom)


def convert(value: Any, kind: type[Any]) -> Any:
    """A decoded JSON value as a typed one, of a type that has a decoder."""
    return msgspec.convert(value, kind, dec_hook=_decode_custom)
