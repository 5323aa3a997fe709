"""Appends with their conditions as they are stored."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..raw_append import RawAppend
from .conditions import JSON, status_of, unpack_json
from .search import Search
from .statements import sql

_APPENDS = sql("recorded_appends")
_SHAPES = "select id, text from shape"


def page(engine: Any, after: int, until: int, size: int) -> list[RawAppend]:
    """At most `size` appends that begin in `(after, until]`, in order."""

    def ask(search: Search) -> list[RawAppend]:
        name = partial(engine._names.text, search.connection)
        with search.connection.snapshot():
            shapes = dict(search.connection.rows(_SHAPES))
            rows = search.connection.rows(_APPENDS, (after, until, size))
            return [_append(shapes, name, *row) for row in rows]

    return engine._ask(ask, is_long=True)  # type: ignore[no-any-return]


def _append(
    shapes: dict[int, str],
    name: Callable[[int], str],
    first: int,
    last: int,
    recorded_at: int,
    shape: int | None,
    arguments: str,
) -> RawAppend:
    status = status_of(shape)
    if status != "recorded" or shape is None:
        return RawAppend(first, last, recorded_at, status, None)
    text = None if shape == JSON else shapes[shape]
    return RawAppend(first, last, recorded_at, status, unpack_json(first, text, arguments, name))
