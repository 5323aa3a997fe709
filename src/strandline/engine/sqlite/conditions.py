"""Recorded conditions, small: conditions of one shape differ only in tags and positions.

The shape (types, and how many tags each item has) is stored once; an append keeps its number and the
arguments: per part how far `after` was behind, per item the numbers of its tags, stream and subject.
A condition with `where` is stored as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from ...append import AppendCondition, Status
from ...names import key_tag, stream_tag, subject_tag
from ...query import Query, QueryItem

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
    """The condition again; without a shape it is stored as JSON."""
    if shape_text is None:
        return AppendCondition.from_json(arguments)
    numbers = iter(map(int, arguments.split()))
    parts = []
    for items in msgspec.json.decode(shape_text):
        after = first - 1 - next(numbers)
        query = Query(_item(fields, numbers, name) for fields in items)
        parts.append(AppendCondition(query, after))
    return AppendCondition.all_of(*parts)


def status_of(shape: int | None) -> Status:
    """The status that a shape stands for."""
    return "unconditional" if shape is None else _STATUS.get(shape, "recorded")


def _item(fields: list[Any], numbers: Iterator[int], name: Callable[[int], str]) -> QueryItem:
    types, exclude_types, tags, has_stream, has_subject, *has_key = fields
    return QueryItem(
        types=types,
        tags=[name(next(numbers)) for _ in range(tags)],
        exclude_types=exclude_types,
        stream=name(next(numbers)).removeprefix(stream_tag("")) if has_stream else None,
        subject=name(next(numbers)).removeprefix(subject_tag("")) if has_subject else None,
        key=name(next(numbers)).removeprefix(key_tag("")) if has_key else None,
    )
