"""Consistency checkpoints: per tag and per type the last position, as far as it is known.

Every event after the position `since` is noted, so a tag or type that is not is no newer than that.
They only ever say "no conflict"; whatever they cannot say, the index decides. Bounded, and changed
only by what is committed.
"""

from __future__ import annotations

from ...event import Event, SequencedEvent
from ...names import index_tags
from ...query import Query, QueryItem

MAX_KEPT = 100_000


class Checkpoints:
    """The last positions of recently written tags and types; those of the open transaction apart."""

    def __init__(self) -> None:
        self._since = 0
        self._tags: dict[str, int] = {}
        self._types: dict[str, int] = {}
        self._new_tags: dict[str, int] = {}
        self._new_types: dict[str, int] = {}

    def undecided(self, query: Query, after: int) -> tuple[QueryItem, ...]:
        """The items that a committed event after `after` may match."""
        return tuple(item for item in query.items if not self._rules_out(item, after))

    def _rules_out(self, item: QueryItem, after: int) -> bool:
        if after < self._since:
            return False
        for tag in item.index_tags():
            if self._tags.get(tag, 0) <= after:
                return True
        return bool(item.types) and all(self._types.get(name, 0) <= after for name in item.types)

    def rule_out_new(self, query: Query) -> bool:
        """Whether certainly no event of the open transaction matches."""
        return not self._new_types or all(self._rules_out_new(item) for item in query.items)

    def _rules_out_new(self, item: QueryItem) -> bool:
        for tag in item.index_tags():
            if tag not in self._new_tags:
                return True
        return bool(item.types) and all(name not in self._new_types for name in item.types)

    def note(self, position: int, event: Event | SequencedEvent) -> None:
        """An event was written in the open transaction."""
        self._new_types[event.type] = position
        for tag in index_tags(event.tags, event.stream, event.subject):
            self._new_tags[tag] = position

    def committed(self, head: int) -> None:
        """What was noted is in the log, whose head is now `head`."""
        if len(self._tags) + len(self._new_tags) > MAX_KEPT:
            self.forget(head)
        else:
            self._tags.update(self._new_tags)
            self._types.update(self._new_types)
        self.rolled_back()

    def rolled_back(self) -> None:
        """What was noted is not in the log."""
        self._new_tags.clear()
        self._new_types.clear()

    def forget(self, head: int) -> None:
        """Know nothing up to `head`: always right."""
        self._since = head
        self._tags.clear()
        self._types.clear()
