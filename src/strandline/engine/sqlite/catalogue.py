"""The types and tags of a log with the number of their events, from the index."""

from __future__ import annotations

from collections.abc import Iterator

from .. import Usage
from ..names_in_use import names_from, tag_ranges
from .names import EVERY_EVENT
from .search import Search
from .statements import sql

_NAMES_FROM = sql("names_from")
_USAGE_OF_TAG = sql("usage_of_tag")
_USAGE_OF_TYPE = sql("usage_of_type")


class Catalogue:
    """Looks names up in one snapshot of the log."""

    def __init__(self, search: Search) -> None:
        self._search = search

    def types(self, prefix: str, after: str, size: int) -> list[Usage]:
        """See `Engine.types_page`."""
        search, lower = self._search, names_from(prefix, after)
        numbers = {search.name_of(number): number for number in search.types()}
        names = sorted(name for name in numbers if name >= lower and name.startswith(prefix))
        return [self._usage_of_type(name, numbers[name]) for name in names[:size]]

    def tags(self, prefix: str, after: str, size: int) -> list[Usage]:
        """See `Engine.tags_page`."""
        found: list[Usage] = []
        for number, name in self._names(prefix, after, size):
            usage = self._usage_of_tag(name, number)
            if usage.count:  # others are types, or tags that no event carries any more
                found.append(usage)
            if len(found) == size:
                break
        return found

    def _names(self, prefix: str, after: str, size: int) -> Iterator[tuple[int, str]]:
        for start, end in tag_ranges(prefix, after):
            lower = start
            while rows := self._search.connection.slow_rows(_NAMES_FROM, (lower, end, size)):
                for number, name in rows:
                    if not name.startswith(prefix):
                        return
                    yield number, name
                lower = names_from(prefix, rows[-1][1])

    def _usage_of_type(self, name: str, type_: int) -> Usage:
        return self._usage(name, _USAGE_OF_TYPE, EVERY_EVENT, type_, [type_])

    def _usage_of_tag(self, name: str, tag: int) -> Usage:
        return self._usage(name, _USAGE_OF_TAG, tag, tag, None)

    def _usage(self, name: str, statement: str, tag: int, number: int, types: list[int] | None) -> Usage:
        search = self._search
        ((count, first, last),) = search.connection.slow_rows(statement, (number, search.indexed_to))
        for segment in search.segments:
            of_types = segment.types(tag) if types is None else types
            newer = segment.positions([tag], of_types, search.indexed_to, search.head)
            if newer:
                count, first, last = count + len(newer), first or newer[0], newer[-1]
        return Usage(name, count, first or 0, last or 0)
