"""What accepted appends asked of the log: one question for each item of each part of their conditions.

A question is about the positions `(after, head]`, where `head` is the last position before the append: no event
there may match the item. An append that asked nothing has one row without a question.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ...engine.raw_append import RawAppend
from ...errors import CorruptLog
from ...names import index_tags

QUESTIONS = (
    "first BIGINT, last BIGINT, head BIGINT, recorded_at BIGINT, status STRING,"
    " has_where BOOLEAN, distance BIGINT,"  # of the append: any `where`; how far it was behind, if it had read
    " part INT, item INT, after BIGINT, key STRING, is_filtered BOOLEAN,"  # of the question; none if there is none
    " condition STRING"  # if it has a `where`
)
ONE_ROW_EACH = "part is null or (part = 0 and item = 0)"  # which rows of the table count appends
SEPARATOR = "\x01"  # no name has control characters
EVERYTHING = "everything"

Question = tuple[int, int, int, str, bool]
_NONE: tuple[None, ...] = (None,) * 5


class Item(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """An item as it is recorded."""

    types: list[str] = []
    tags: list[str] = []
    exclude_types: list[str] = []
    stream: str | None = None
    subject: str | None = None
    where: dict[str, Any] | None = None
    key: str | None = None

    def to_key(self) -> str:
        """All that types and tags of an event can tell: the same for every item that asks for the same."""
        needs = index_tags(tuple(self.tags), self.stream, self.subject, self.key)
        asks = needs or self.types or self.exclude_types or self.where is not None
        lists = ("\n".join(names) for names in (needs, self.types, self.exclude_types))
        return SEPARATOR.join((*lists, "" if asks else EVERYTHING))


class Items(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A query."""

    items: list[Item]


class Part(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A part of a condition."""

    fail_if_events_match: Items
    after: int = 0


class Parts(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A condition of several parts."""

    parts: list[Part]


_PART = msgspec.json.Decoder(Part)
_PARTS = msgspec.json.Decoder(Parts)


def rows_of(append: RawAppend) -> Iterator[tuple[Any, ...]]:
    """The rows of an append."""
    first, last, recorded_at, status, condition = append
    head = first - 1
    parts = [] if condition is None else _parts(first, condition)
    asked = [
        (part, item, asked.after, wanted.to_key(), wanted.where is not None)
        for part, asked in enumerate(parts)
        for item, wanted in enumerate(asked.fail_if_events_match.items)
    ]
    has_where = any(is_filtered for *_, is_filtered in asked)
    distance = max((max(0, head - part.after) for part in parts if part.after), default=None)
    told = first, last, head, recorded_at, status, has_where, distance
    kept = condition if has_where else None
    return ((*told, *question, kept) for question in asked or (_NONE,))


def _parts(first: int, condition: str) -> list[Part]:
    try:
        if condition.startswith('{"parts"'):
            return _PARTS.decode(condition).parts
        return [_PART.decode(condition)]
    except (msgspec.DecodeError, UnicodeError) as error:
        raise CorruptLog(f"the condition of append {first} cannot be read: {error}") from error
