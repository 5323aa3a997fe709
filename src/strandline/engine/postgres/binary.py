"""Parameters in PostgreSQL's binary form. To let psycopg adapt them took longer than most statements take."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_LENGTH = struct.Struct(">i")
_BIGINT = struct.Struct(">q")
_NULL = _LENGTH.pack(-1)


class Value(NamedTuple):
    """A parameter: the type's number in PostgreSQL, and the bytes to send (None: null)."""

    type: int
    data: bytes | None


def boolean(value: bool) -> Value:  # noqa: FBT001
    """A boolean."""
    return Value(16, b"\1" if value else b"\0")


def bigint(value: int | None) -> Value:
    """A bigint."""
    return Value(20, None if value is None else _BIGINT.pack(value))


def text(value: str) -> Value:
    """A text."""
    return Value(25, value.encode())


def bytes_array(values: Sequence[bytes | None]) -> Value:
    """A bytea[]."""
    return Value(1001, _array(17, len(values), _joined(values)))


def uuid_array(values: Sequence[bytes]) -> Value:
    """A uuid[], of the bytes of each."""
    return Value(2951, _array(2950, len(values), _joined(values)))


def text_array(values: Sequence[str | None] | None) -> Value:
    """A text[]."""
    if values is None:
        return Value(1009, None)
    encoded = _joined([None if value is None else value.encode() for value in values])
    return Value(1009, _array(25, len(values), encoded))


def int_array(values: Sequence[int]) -> Value:
    """An int[]."""
    numbers = [number for value in values for number in (4, value)]
    return Value(1007, _array(23, len(values), struct.pack(f">{len(numbers)}i", *numbers)))


def bigint_array(values: Sequence[int]) -> Value:
    """A bigint[]."""
    numbers = [number for value in values for number in (8, value)]
    return Value(1016, _array(20, len(values), struct.pack(">" + "iq" * len(values), *numbers)))


def _array(element: int, length: int, elements: bytes) -> bytes:
    # Dimensions, whether there may be nulls, the type of the elements, how many there are, the first index.
    header = (1, 1, element, length, 1) if length else (0, 0, element)
    return struct.pack(f">{len(header)}i", *header) + elements


def _joined(values: Iterable[bytes | None]) -> bytes:
    pack = _LENGTH.pack
    return b"".join([_NULL if value is None else pack(len(value)) + value for value in values])
