"""JSON as the store writes it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from .errors import InvalidInput
from .tag_id import as_json


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
