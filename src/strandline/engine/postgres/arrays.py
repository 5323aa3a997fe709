"""Arrays in PostgreSQL's binary form. psycopg's own way escapes every element, which took half of an append."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

from psycopg.adapt import Dumper
from psycopg.pq import Format

_LENGTH = struct.Struct(">i")
_NULL = _LENGTH.pack(-1)


class BinaryArray:
    """The bytes of an array; each subclass is an array of one type."""

    __slots__ = ("data",)
    element_oid = 0
    oid = 0

    def __init__(self, length: int, elements: bytes) -> None:
        # Dimensions, whether there may be nulls, the type of the elements, how many there are, the first index.
        header = (1, 1, self.element_oid, length, 1) if length else (0, 0, self.element_oid)
        self.data = struct.pack(f">{len(header)}i", *header) + elements


class BytesArray(BinaryArray):
    """A bytea[]."""

    element_oid, oid = 17, 1001

    def __init__(self, values: Sequence[bytes | None]) -> None:
        super().__init__(len(values), _joined(values))


class TextArray(BinaryArray):
    """A text[]."""

    element_oid, oid = 25, 1009

    def __init__(self, values: Sequence[str | None]) -> None:
        super().__init__(len(values), _joined(None if value is None else value.encode() for value in values))


class IntArray(BinaryArray):
    """An int[]."""

    element_oid, oid = 23, 1007

    def __init__(self, values: Sequence[int]) -> None:
        numbers = [number for value in values for number in (4, value)]
        super().__init__(len(values), struct.pack(f">{len(numbers)}i", *numbers))


class BigintArray(BinaryArray):
    """A bigint[]."""

    element_oid, oid = 20, 1016

    def __init__(self, values: Sequence[int]) -> None:
        numbers = [number for value in values for number in (8, value)]
        super().__init__(len(values), struct.pack(">" + "iq" * len(values), *numbers))


class _ArrayDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: BinaryArray) -> bytes:
        return obj.data


def register(adapters: Any) -> None:
    """Let a connection send these arrays."""
    for kind in (BytesArray, TextArray, IntArray, BigintArray):
        adapters.register_dumper(kind, type(f"{kind.__name__}Dumper", (_ArrayDumper,), {"oid": kind.oid}))


def _joined(values: Iterable[bytes | None]) -> bytes:
    pack = _LENGTH.pack
    return b"".join([_NULL if value is None else pack(len(value)) + value for value in values])
