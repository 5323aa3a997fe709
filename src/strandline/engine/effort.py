"""Which reads are short, so that they never wait for those that may take long."""

from __future__ import annotations

from ..query import Query

SHORT_READ = 500


def is_long(query: Query, size: int = 1) -> bool:
    """Whether a read of so many events may look at many more, or gives many."""
    return size > SHORT_READ or query.has_where


def is_looked_up(query: Query) -> bool:
    """Whether the index leads to its events and to no others, so that it takes no longer than they are many."""
    return query.is_all or all(
        not item.exclude_types and (len(tags) == 1 or (not tags and bool(item.types)))
        for item in query.items
        for tags in (item.index_tags(),)
    )
