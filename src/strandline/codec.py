"""JSON as the store writes it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from itertools import accumulate
from typing import Any, Final
from uuid import UUID

import msgspec

from .errors import InvalidInput
from .speedups import native
from .tag_id import as_json

_is_json = getattr(native, "is_json", None)  # native code that was built before has none

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
    """Return a value as JSON. `datetime`, `UUID` and `Decimal` become text, all else that JSON has not is refused."""
    try:
        if _is_json is None or not _is_json(value):
            check_json(value, what, error)
        return msgspec.json.encode(value, enc_hook=as_json)
    except InvalidInput:
        raise
    except (TypeError, ValueError, RecursionError) as reason:
        raise error(f"{what} is not a JSON value: {reason}", hint=hint) from reason


def check_json(value: Any, what: str, error: type[InvalidInput]) -> None:
    """Raise if something in a value has no form in JSON that tells what it was. `what` is the path to the value."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if not isinstance(name, str):
                raise error(
                    f"{what} has the name {name!r:.60}, and names in a JSON object are text",
                    hint=f"write {str(name)!r:.60}: …, or a list of pairs",
                )
            check_json(inner, f"{what}.{name}", error)
    elif isinstance(value, (list, tuple)):
        for number, inner in enumerate(value):
            check_json(inner, f"{what}[{number}]", error)
    elif isinstance(value, datetime):
        check_zone(value, what, error)
    elif isinstance(value, float) or type(value) is Decimal:
        if not math.isfinite(value):
            raise error(f"JSON has no NaN and no infinity, {what} is one", hint="write null or text instead")
    elif not isinstance(value, _JSON_TYPES):
        raise error(
            f"{what}: a value of the type {type(value).__name__} has no JSON form: {value!r:.60}",
            hint=_INSTEAD.get(type(value), "write what it consists of: text, numbers, lists and dicts"),
        )


_JSON_TYPES: Final = (str, int, UUID, type(None))
_INSTEAD: Final[dict[type, str]] = {
    **dict.fromkeys((bytes, bytearray, memoryview), "write text: base64.b64encode(…).decode()"),
    **dict.fromkeys((set, frozenset), "write a list: sorted(…)"),
}


def check_zone(value: datetime, what: str, error: type[InvalidInput]) -> None:
    """Raise if a time has no zone: it would mean another instant elsewhere, and cannot be compared with one that has."""
    if value.utcoffset() is None:
        raise error(
            f"{what} is a time without a zone: {value.isoformat(' ')}",
            hint="say which zone is meant: when.replace(tzinfo=UTC), or when.astimezone() if it is this machine's",
        )


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
