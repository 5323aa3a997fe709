"""Rows on their way into the file: written together, in the order of the index."""

from __future__ import annotations

from typing import Any

from .connection import Connection
from .statements import sql

_EVENT_INSERT = sql("event_insert")
_POSTING_INSERT = sql("posting_insert")
_APPEND_INSERT = sql("append_insert")


class Pending:
    """What was accepted in the open transaction and is not in its tables yet."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.events: list[tuple[Any, ...]] = []
        self.postings: list[tuple[int, int, int]] = []
        self.appends: list[tuple[int, int | None, int | None, str | None]] = []
        self.ids: set[bytes] = set()

    def write(self) -> None:
        """Put everything into the tables."""
        if not self.events:
            return
        self.postings.sort()
        self._connection.run_many(_EVENT_INSERT, self.events)
        self._connection.run_many(_POSTING_INSERT, self.postings)
        self._connection.run_many(_APPEND_INSERT, self.appends)
        self.clear()

    def clear(self) -> None:
        """Forget it."""
        self.events.clear()
        self.postings.clear()
        self.appends.clear()
        self.ids.clear()
