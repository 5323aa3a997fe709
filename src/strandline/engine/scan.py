"""Scans: whole ranges of a log, some columns of them, for those that take millions of events at once.

A search finds few events by the index; a scan looks at every event of a range, and can tell them apart by their
types alone.
"""

from __future__ import annotations

import msgspec

from ..query import Query

COLUMNS = ("position", "type", "data", "tags", "stream", "subject", "id", "metadata", "recorded_at")
"""What events are kept as, in the order of the fields of `SequencedEvent`."""


class Types(msgspec.Struct, frozen=True):
    """The types that a scan takes: the listed ones, and of the others all that are not excluded (None: no other)."""

    listed: tuple[str, ...] = ()
    excluded: tuple[str, ...] | None = None
    every: bool = False  # the store's own events too

    @classmethod
    def of(cls, query: Query) -> Types | None:
        """The types that match the query; None if something else than the type decides."""
        if query.is_all:
            return cls(every=True)
        if any(item.index_tags() or item.where is not None for item in query.items):
            return None
        listed = {name for item in query.items for name in item.types}
        others = [set(item.exclude_types) for item in query.items if not item.types]
        excluded = tuple(sorted(set.intersection(*others))) if others else None
        return cls(tuple(sorted(listed)), excluded)
