"""The newest part of the index, in memory.

Index entries are spread over the whole index, so writing them with every append would touch a page for
each. They are kept here first, and settle in the file in the order of the index, a few with each
commit; `indexed_to` says up to which position the file has them all. Whatever is newer is looked up
here, which also makes this the checkpoint of every tag and type: a decision that was made on a recent
head is judged without touching the file.
"""

from __future__ import annotations

import contextlib
import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from ...errors import CorruptLog
from ...event import split_tags
from ...names import index_tags
from .connection import Connection
from .names import EVERY_EVENT, Names
from .statements import sql

SEGMENT_EVENTS = 5_000

_RECENT_EVENTS = sql("recent_events")

Entry = tuple[int, int, int]


class Segment:
    """The index entries of the events in `(after, head]`: positions by tag and type, ascending."""

    __slots__ = ("_positions", "after", "head")

    def __init__(self, after: int) -> None:
        self.after = after
        self.head = after
        self._positions: dict[int, dict[int, list[int]]] = {}

    def add(self, position: int, type_: int, tags: Iterable[int]) -> None:
        """Add the next event."""
        for tag in (EVERY_EVENT, *tags):
            by_type = self._positions.setdefault(tag, {})
            if type_ in by_type:
                by_type[type_].append(position)
            else:
                by_type[type_] = [position]
        self.head = position

    def extend(self, newer: Segment) -> None:
        """Add the events of the segment that follows."""
        for tag, newer_types in newer._positions.items():
            by_type = self._positions.setdefault(tag, {})
            for type_, positions in newer_types.items():
                if type_ in by_type:
                    by_type[type_] += positions
                else:
                    by_type[type_] = positions
        self.head = newer.head

    def tags(self) -> list[int]:
        """The tags of these events."""
        return list(self._positions)

    def types(self, tag: int) -> list[int]:
        """The types of the events that carry a tag."""
        return list(self._positions.get(tag, ()))

    def first(self, tag: int, types: Sequence[int], after: int, until: int) -> int | None:
        """The first position with the tag and one of the types in `(after, until]`."""
        by_type = self._positions.get(tag)
        if by_type is None:
            return None
        first = until + 1
        for type_ in types:
            positions = by_type.get(type_)
            if positions is not None and positions[-1] > after:
                first = min(first, positions[bisect_right(positions, after)])
        return first if first <= until else None

    def positions(self, tags: Sequence[int], types: Sequence[int], after: int, until: int) -> list[int]:
        """The positions with all the tags and one of the types in `(after, until]`, ascending."""
        found: list[int] = []
        for type_ in types:
            lists = [self._positions.get(tag, {}).get(type_) for tag in tags]
            rarest = lists[0] if len(lists) == 1 else min(lists, key=lambda positions: len(positions or ()))
            if not rarest or rarest[-1] <= after:
                continue
            within = rarest[bisect_right(rarest, after) : bisect_right(rarest, until)]
            for other in lists:
                if other is not rarest:
                    within = [position for position in within if _has(other or [], position)]
            found += within
        if len(types) > 1:
            found.sort()
        return found

    def entries(self, after: int) -> Iterator[Entry]:
        """The entries of positions beyond `after`, in the order of the index."""
        for tag in sorted(self._positions):
            by_type = self._positions[tag]
            for type_ in sorted(by_type):
                positions = by_type[type_]
                for position in positions[bisect_right(positions, after) :]:
                    yield tag, type_, position


class Recent:
    """The segments of what is committed, for all threads of a store. Only the last one grows."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._lock = threading.Lock()
        self._segments: tuple[Segment, ...] = ()

    def covering(self, connection: Connection, indexed_to: int, head: int) -> tuple[Segment, ...]:
        """Segments with all entries in `(indexed_to, head]`; the connection's snapshot has these marks."""
        with self._changing():
            kept = tuple(segment for segment in self._segments if segment.head > indexed_to)
            if not kept:
                kept = (Segment(indexed_to),)
            if kept[0].after > indexed_to:
                # A snapshot that is older than what others have made of the log meanwhile.
                return self._load((Segment(indexed_to),), connection, head)
            self._segments = self._load(kept, connection, head)
            return self._segments

    def committed(self, new: Segment) -> None:
        """The events of `new` are in the log."""
        with self._changing():
            if self._segments and self._segments[-1].head == new.after:
                self._segments[-1].extend(new)
                self._segments = _sealed(self._segments)

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """One thread at a time; what is interrupted halfway is forgotten, and read again from the file."""
        with self._lock:
            try:
                yield
            except BaseException:
                self._segments = ()
                raise

    def _load(self, segments: tuple[Segment, ...], connection: Connection, head: int) -> tuple[Segment, ...]:
        while segments[-1].head < head:
            last = segments[-1]
            upto = min(head, last.after + SEGMENT_EVENTS)
            for position, type_, tags, stream, subject in connection.execute(
                _RECENT_EVENTS, (last.head, upto)
            ):
                names = index_tags(split_tags(tags), stream, subject, None)  # the key is one of the tags
                last.add(
                    position,
                    self._number(connection, type_),
                    [self._number(connection, tag) for tag in names],
                )
            segments = _sealed(segments)
        return segments

    def _number(self, connection: Connection, text: str) -> int:
        number = self._names.find(connection, text)
        if number is None:
            raise CorruptLog(f"the log has no number for {text!r}")
        return number


def _sealed(segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
    last = segments[-1]
    return (*segments, Segment(last.head)) if last.head - last.after >= SEGMENT_EVENTS else segments


def _has(positions: list[int], position: int) -> bool:
    index = bisect_right(positions, position)
    return index > 0 and positions[index - 1] == position
