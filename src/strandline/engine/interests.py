"""Which of many queries match an event: found by an index, so that queries about other things cost nothing.

Every item of a query is kept under one name that its events have: a tag, a stream, a subject or each of its types.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from typing import Generic, TypeVar

from ..event import SequencedEvent, join_tags, split_tags
from ..names import key_tag
from ..query import Query, QueryItem

Asker = TypeVar("Asker", bound=Hashable)
Bucket = dict[Asker, list[QueryItem]]
"""The items to test for an event that has a name."""
Buckets = dict[str | None, Bucket[Asker]]
_ANY = None


class Interests(Generic[Asker]):
    """Queries, each with its asker. For one thread at a time."""

    def __init__(self) -> None:
        self._by_tag: Buckets[Asker] = {}
        self._tags = self._by_tag.keys()
        self._by_stream: Buckets[Asker] = {}
        self._by_subject: Buckets[Asker] = {}
        self._by_type: Buckets[Asker] = {}
        self._types = self._by_type.keys()
        self._any: Buckets[Asker] = {}
        self._places: dict[Asker, list[tuple[Buckets[Asker], str | None]]] = {}

    def __bool__(self) -> bool:
        return bool(self._places)

    def __contains__(self, asker: Asker) -> bool:
        return asker in self._places

    def askers(self) -> list[Asker]:
        """All who ask for something."""
        return list(self._places)

    def add(self, asker: Asker, query: Query) -> None:
        """Remember a query."""
        places = self._places[asker] = []
        for item in query.items:
            outline = _without_where(item)
            for buckets, name in self._narrowest(item):
                buckets.setdefault(name, {}).setdefault(asker, []).append(outline)
                places.append((buckets, name))

    def remove(self, asker: Asker) -> None:
        """Forget the query of an asker, if there is one."""
        for buckets, name in self._places.pop(asker, ()):
            bucket = buckets.get(name, {})
            bucket.pop(asker, None)
            if not bucket:
                buckets.pop(name, None)

    def matches(self, events: Sequence[SequencedEvent]) -> Iterator[tuple[SequencedEvent, Collection[Asker]]]:
        """Yield the events that match a query, `where` aside, each with those who asked for it."""
        if not self._may_match(events):
            return
        for event in events:
            buckets = self._buckets(event)
            askers = _askers(buckets, event) if buckets else ()
            if askers:
                yield event, askers

    def _may_match(self, events: Sequence[SequencedEvent]) -> bool:
        """Whether one of the events has a name that somebody asks for. Mostly not, and all at once that is cheap."""
        return bool(
            self._any
            or not self._tags.isdisjoint(split_tags(join_tags([event.raw_tags for event in events])))
            or not self._types.isdisjoint([event.type for event in events])
            or (self._by_stream and any(event.stream in self._by_stream for event in events))
            or (self._by_subject and any(event.subject in self._by_subject for event in events))
        )

    def _buckets(self, event: SequencedEvent) -> list[Bucket[Asker]]:
        """The items that may match."""
        found = []
        if event.type in self._by_type:
            found.append(self._by_type[event.type])
        names = split_tags(event.raw_tags)
        if not self._tags.isdisjoint(names):
            found += [self._by_tag[name] for name in names if name in self._by_tag]
        if event.stream in self._by_stream:
            found.append(self._by_stream[event.stream])
        if event.subject in self._by_subject:
            found.append(self._by_subject[event.subject])
        if self._any:
            found.append(self._any[_ANY])
        return found

    def _narrowest(self, item: QueryItem) -> list[tuple[Buckets[Asker], str | None]]:
        """The places of an item: under the name that the fewest others have, or else under each of its types."""
        names: list[tuple[Buckets[Asker], str | None]] = [(self._by_tag, tag) for tag in item.tags]
        if item.key is not None:
            names.append((self._by_tag, key_tag(item.key)))
        if item.stream is not None:
            names.append((self._by_stream, item.stream))
        if item.subject is not None:
            names.append((self._by_subject, item.subject))
        if names:
            return [min(names, key=lambda place: len(place[0].get(place[1], ())))]
        if item.types:
            return [(self._by_type, name) for name in item.types]
        return [(self._any, _ANY)]


def _without_where(item: QueryItem) -> QueryItem:
    if item.where is None:
        return item
    return QueryItem(item.types, item.tags, item.exclude_types, item.stream, item.subject, key=item.key)


def _askers(buckets: list[Bucket[Asker]], event: SequencedEvent) -> Collection[Asker]:
    askers: dict[Asker, None] = {}
    for bucket in buckets:
        for asker, items in bucket.items():
            if asker not in askers and any(item.matches(event) for item in items):
                askers[asker] = None
    return askers
