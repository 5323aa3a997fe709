"""Routing: a stream for the events of a boundary. It spreads them; correctness never depends on it."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

from .errors import InvalidInput
from .names import check_name, check_tags

PARTITIONS = 64
PREFIX = "dcb:partition:"

_64_BITS = 2**64 - 1
_MOST_PARTITIONS = 2**31 - 1


def stream_for(tags: Iterable[str], partitions: int = PARTITIONS, prefix: str = PREFIX) -> str:
    """The stream of a boundary: the same for the same tags in any order, one of so many partitions."""
    is_whole = isinstance(partitions, int) and not isinstance(partitions, bool)
    if not is_whole or not 1 <= partitions <= _MOST_PARTITIONS:
        raise InvalidInput(
            f"partitions is a whole number from 1 to {_MOST_PARTITIONS}, not {partitions!r:.40}",
            hint=f"leave it out to have {PARTITIONS}",
        )
    if not isinstance(prefix, str):
        raise InvalidInput(
            f"the prefix of a stream is text, not {type(prefix).__name__}",
            hint=f"leave it out to have {PREFIX!r}",
        )
    canonical = "|".join(sorted(check_tags(tags, InvalidInput), key=_utf16_units))
    bucket = _bucket(_hash(canonical.encode()), partitions) if canonical else 0
    return check_name(f"{prefix}{bucket}", "stream", InvalidInput)


def _utf16_units(tag: str) -> bytes:
    """By these Java sorts texts, and its programs share the partitions; Python sorts by characters, U+1F600 after U+FF5E."""
    return tag.encode("utf-16-be")


def _hash(data: bytes) -> int:
    """CRC-32 spread over 64 bits."""
    crc = zlib.crc32(data)
    return ((crc << 32) ^ (crc * 0x9E37_79B9_7F4A_7C15)) & _64_BITS


def _bucket(key: int, buckets: int) -> int:
    """Jump consistent hash (Lamping and Veach, 2014): with one more bucket, few keys move."""
    bucket, jump = -1, 0
    while jump < buckets:
        bucket = jump
        key = (key * 2_862_933_555_777_941_757 + 1) & _64_BITS
        jump = int(float((bucket + 1) << 31) / float((key >> 33) + 1))
    return bucket
