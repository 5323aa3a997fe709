"""A file with its recorded appends."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ..recorded import RecordedRow
from .conditions import JSON, status_of, unpack_json
from .statements import sql

if TYPE_CHECKING:
    from . import SqliteEngine
    from .search import Search

_RECORDED_LOG = sql("recorded_log")
_SHAPES = "select id, text from shape"


def page(engine: SqliteEngine, after: int, until: int, size: int) -> list[RecordedRow]:
    """At most `size` rows of `(after, until]`, in order."""

    def ask(search: Search) -> list[RecordedRow]:
        name = partial(engine._names.text, search.connection)

        def row(*fields: Any) -> RecordedRow:
            *event, shape, arguments = fields
            if shape is None:
                return RecordedRow(*event, None)
            status = status_of(shape)
            if status != "recorded":
                return RecordedRow(*event, status)
            text = None if shape == JSON else shapes[shape]
            return RecordedRow(*event, unpack_json(event[0], text, arguments, name))

        with search.connection.snapshot():
            shapes: dict[int, str] = dict(search.connection.execute(_SHAPES))
            return [row(*fields) for fields in search.connection.execute(_RECORDED_LOG, (after, until, size))]

    return engine._ask(ask, is_long=True)
