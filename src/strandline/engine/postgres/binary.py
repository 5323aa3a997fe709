"""Parameters in PostgreSQL's binary form. To let psycopg adapt them took longer than most statements take."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from ...speedups import speedup

_LENGTH = struct.Struct(">i")
_HEADER, _EMPTY = struct.Struct(">5i"), struct.Struct(">3i")
_BIGINT = struct.Struct(">q")
_NULL = _LENGTH.pack(-1)

_native = speedup("strandline.engine.postgres.native")


Value = tuple[int, bytes | None]
"""A parameter: the type's number in PostgreSQL, and the bytes to send (None: null)."""


def boolean(value: bool) -> Value:  # noqa: FBT001
    """A boolean."""
    return 16, b"\1" if value else b"\0"


def bigint(value: int | None) -> Value:
    """A bigint."""
    return 20, None if value is None else _BIGINT.pack(value)


def text(value: str) -> Value:
    """A text."""
    return 25, value.encode()


def data(value: bytes) -> Value:
    """A bytea."""
    return 17, value


def bytes_array(values: Sequence[bytes | None] | None) -> Value:
    """A bytea[]."""
    return 1001, None if values is None else _array(17, values)


def uuid_array(values: Sequence[bytes]) -> Value:
    """A uuid[], of the bytes of each."""
    return 2951, _array(2950, values)


def text_array(values: Sequence[str | None] | None) -> Value:
    """A text[]."""
    return 1009, None if values is None else _array(25, values)


def int_array(values: Sequence[int]) -> Value:
    """An int[]."""
    return 1007, _numbers(23, values)


def bigint_array(values: Sequence[int]) -> Value:
    """A bigint[]."""
    return 1016, _numbers(20, values)


def _array(element: int, values: Sequence[str | bytes | None]) -> bytes:
    if _native is not None:
        return _native.array(element, values)  # type: ignore[no-any-return]
    encoded = [value.encode() if isinstance(value, str) else value for value in values]
    pack = _LENGTH.pack
    elements = [_NULL if value is None else pack(len(value)) + value for value in encoded]
    return _header(element, len(elements)) + b"".join(elements)


def _numbers(element: int, values: Sequence[int]) -> bytes:
    if _native is not None:
        return _native.numbers(element, values)  # type: ignore[no-any-return]
    size, form = (8, "iq") if element == 20 else (4, "ii")
    numbers = [number for value in values for number in (size, value)]
    return _header(element, len(values)) + struct.pack(">" + form * len(values), *numbers)


def _header(element: int, length: int) -> bytes:
    # Dimensions, whether there may be nulls, the type of the elements, how many there are, the first index.
    return _HEADER.pack(1, 1, element, length, 1) if length else _EMPTY.pack(0, 0, element)
