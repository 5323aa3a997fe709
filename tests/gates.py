"""Holding an append, and with it the lock of its log, for as long as a test wants."""

from __future__ import annotations

import threading

from strandline import AppendCondition, Query, QueryItem, SequencedEvent


class Gate:
    """A matcher that waits, and then finds no conflict. The log must have an event of the type."""

    def __init__(self, type_: str) -> None:
        self.is_reached = threading.Event()
        self.is_open = threading.Event()
        self.condition = AppendCondition(Query.of(QueryItem(types=[type_], where=self._wait)))

    def _wait(self, found: SequencedEvent) -> bool:
        self.is_reached.set()
        assert self.is_open.wait(30)
        return False
