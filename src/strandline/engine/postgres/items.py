"""Queries as parameters: the items of a query as three arrays of text."""

from __future__ import annotations

from collections.abc import Iterable

from ...event import join_tags
from ...query import Query, QueryItem
from .binary import Value, text_array


class Items:
    """What `seeks_v1` takes: tags, types and excluded types of each item, joined by newlines."""

    def __init__(self) -> None:
        self.tags: list[str] = []
        self.types: list[str | None] = []
        self.excluded: list[str | None] = []

    def add(self, item: QueryItem) -> None:
        """Add an item, `where` aside."""
        self.tags.append(join_tags(item.index_tags()))
        self.types.append(join_tags(item.types) if item.types else None)
        # Nothing asked means everything, the store's own events included; anything else leaves those out.
        self.excluded.append(None if item.is_all else join_tags(item.exclude_types))

    def parameters(self) -> tuple[Value, Value, Value]:
        """The three arrays."""
        return text_array(self.tags), text_array(self.types), text_array(self.excluded)

    @classmethod
    def of(cls, items: Iterable[QueryItem]) -> Items:
        """These items."""
        made = cls()
        for item in items:
            made.add(item)
        return made


def query_parameters(query: Query) -> tuple[Value, Value, Value]:
    """The query as `read_v1` and `count_v1` take it; nothing if every event matches."""
    if query.is_all:
        return text_array(None), text_array(None), text_array(None)
    return Items.of(query.items).parameters()


def is_plain(query: Query) -> bool:
    """Whether the index decides it; `where` is decided by Python."""
    return not query.has_where
