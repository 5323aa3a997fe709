"""JSON as the store writes it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from itertools import accumulate
from typing import Any, Final

import msgspec

from .errors import InvalidInput
from .tag_id import as_json

# A decoder goes as deep as Python's stack has room: 1,000 calls, the caller's included.
MAX_NESTING: Final = 900
_TEXTS: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_OPENS: Final = bytes.maketrans(b"[{]}", b"\1\1\0\0")
_NO_BRACKETS: Final = bytes({*range(256)} - {*b"[{]}"})


def decode_data(data: bytes) -> Any:
    """The value of an event's data, `DecodeError` if it is not JSON; deeper nested than `MAX_NESTING` it is not.

    Where the stack has no room for less, that is a `RecursionError`: the answer never depends on who asks.
    """
    if is_too_deep(data):
        raise msgspec.DecodeError(f"it is nested more than {MAX_NESTING} levels deep")
    return msgspec.json.decode(data)


def is_too_deep(data: bytes) -> bool:
    """Whether JSON is nested deeper than `MAX_NESTING`."""
    if len(data) <= 2 * MAX_NESTING or data.count(b"[") + data.count(b"{") <= MAX_NESTING:
        return False
    brackets = _TEXTS.sub(b"", data).translate(_OPENS, _NO_BRACKETS)
    return max(accumulate(map((-1, 1).__getitem__, brackets)), default=0) > MAX_NESTING


def encode_value(value: Any, what: str, error: type[InvalidInput], *, hint: str) -> bytes:
    """A value as JSON; refused if it would not come back."""
    try:
        encoded = msgspec.json.encode(value, enc_hook=as_json)
    except (TypeError, ValueError, RecursionError) as reason:
        raise error(f"{what} is not a JSON value: {reason}", hint=hint) from reason
    if b"null" in encoded:
        refuse_nan(value, what, error)
    return encoded


def refuse_nan(value: Any, what: str, error: type[InvalidInput]) -> None:
    """Refuse a value with a NaN or an infinity in it; encoded, they would have become null."""
    if _has_nan(msgspec.to_builtins(value, enc_hook=as_json)):
        raise error(f"JSON has no NaN and no infinity, {what} has one", hint="write null or text instead")


def _has_nan(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, Mapping):
        return any(_has_nan(inner) for inner in value.values())
    return isinstance(value, (list, tuple, set, frozenset)) and any(map(_has_nan, value))
