"""Recorded conditions, small: conditions of one shape differ only in tags and positions.

The shape (types, and how many tags each item has) is stored once; an append keeps its number and the
arguments: per part how far `after` was behind, per item the numbers of its tags, stream and subject.
A condition with `where` is stored as JSON.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from ...append import AppendCondition, Status
from ...event import encode_sorted
from ...names import key_tag, stream_tag, subject_tag
from ...query import QueryItem

NOT_RECORDED, NOT_AUDITABLE, JSON = 1, 2, 3
Shape = tuple[tuple[Any, ...], ...]
_STATUS: dict[int, Status] = {NOT_RECORDED: "not_recorded", NOT_AUDITABLE: "not_auditable"}


def pack(
    guard: AppendCondition, first: int, intern: Callable[[str], int], shape_id: Callable[[Shape], int]
) -> tuple[int, str]:
    """The shape and the arguments of a condition under which position `first` was written."""
    shape: list[tuple[Any, ...]] = []
    arguments: list[int] = []
    for part in guard.parts:
        query = part.fail_if_events_match
        if query.has_where:
            return JSON, guard.to_json()
        arguments.append(first - 1 - part.after)
        for item in query.items:
            arguments += map(intern, item.index_tags())
        shape.append(tuple([_shape(item) for item in query.items]))
    return shape_id(tuple(shape)), " ".join(map(str, arguments))


def _shape(item: QueryItem) -> tuple[Any, ...]:
    shape = (
        item.types,
        item.exclude_types,
        len(item.tags),
        item.stream is not None,
        item.subject is not None,
    )
    return shape if item.key is None else (*shape, True)


def unpack(first: int, shape_text: str | None, arguments: str, name: Callable[[int], str]) -> AppendCondition:
    """The condition again."""
    return AppendCondition.from_json(unpack_json(first, shape_text, arguments, name))


def unpack_json(first: int, shape_text: str | None, arguments: str, name: Callable[[int], str]) -> str:
    """The JSON form of the condition; without a shape it is what is stored."""
    if shape_text is None:
        return arguments
    numbers = iter(map(int, arguments.split()))
    parts = []
    for items in _shape_of(shape_text):
        after = first - 1 - next(numbers)
        listed = [_item(fields, numbers, name) for fields in items]
        parts.append({"after": after, "fail_if_events_match": {"items": listed}})
    return encode_sorted(parts[0] if len(parts) == 1 else {"parts": parts}).decode()


@functools.lru_cache(maxsize=1024)
def _shape_of(text: str) -> Any:
    return msgspec.json.decode(text)


def status_of(shape: int | None) -> Status:
    """The status that a shape stands for."""
    return "unconditional" if shape is None else _STATUS.get(shape, "recorded")


def _item(fields: list[Any], numbers: Iterator[int], name: Callable[[int], str]) -> dict[str, Any]:
    types, exclude_types, tags, has_stream, has_subject, *has_key = fields
    item = {
        "types": types,
        "tags": [name(next(numbers)) for _ in range(tags)],
        "exclude_types": exclude_types,
        "stream": name(next(numbers)).removeprefix(stream_tag("")) if has_stream else None,
        "subject": name(next(numbers)).removeprefix(subject_tag("")) if has_subject else None,
        "key": name(next(numbers)).removeprefix(key_tag("")) if has_key else None,
    }
    return {field: value for field, value in item.items() if value}
