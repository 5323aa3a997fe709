"""Which names a page of types or tags may have: what all engines that search by ranges share."""

from __future__ import annotations

from ..names import RESERVED

# Both bounds are no names: a name has no control characters, and 0x10FFFF is not a character.
_BEFORE_ALL, _BEYOND_ALL = "\x01", "\U0010ffff" * 257
_BEYOND_RESERVED = chr(ord(RESERVED) + 1)

NameRange = tuple[str, str]
"""Names from the first on, and before the second."""


def names_from(prefix: str, after: str) -> str:
    """The lower bound of the names that begin with a prefix and come after a name."""
    return max(prefix, after + _BEFORE_ALL)


def tag_ranges(prefix: str, after: str) -> list[NameRange]:
    """Where the tags of users are: on both sides of the store's own, of which there may be millions."""
    lower = names_from(prefix, after)
    ranges = (lower, RESERVED), (max(lower, _BEYOND_RESERVED), _BEYOND_ALL)
    return [(start, end) for start, end in ranges if start < end]
