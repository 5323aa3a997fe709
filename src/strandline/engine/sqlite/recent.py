"""The newest part of the index, in memory.

Index entries are spread over the whole index, so writing them with every append would touch a page for
each. They are kept here first, and settle in the file in the order of the index, a few with each
commit; `indexed_to` says up to which position the file has them all. Whatever is newer is looked up
here, which also makes this the checkpoint of every tag and type: a decision that was made on a recent
head is judged without touching the file.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...errors import CorruptLog
from ...event import split_tags
from ...names import index_tags
from ...speedups import speedup
from .connection import Connection
from .names import EVERY_EVENT, Names
from .statements import sql

# In a larger index the entries of a segment are on more pages: there more of them are written together.
SEGMENT_EVENTS, LARGEST_SEGMENT = 5_000, 20_000
SEGMENTS_IN_LOG = 100

_RECENT_EVENTS = sql("recent_events")

Entry = tuple[int, int, int]
TYPE_BITS = 31
TYPE = (1 << TYPE_BITS) - 1


class Segment:
    """The index entries of the events in `(after, head]`: positions by tag and type, ascending.

    Tag and type are one number, which sorts like the pair.
    """

    __slots__ = ("_positions", "_types", "after", "head")

    def __init__(self, after: int) -> None:
        self.after = after
        self.head = after
        self._positions: dict[int, list[int]] = {}
        self._types: set[int] = set()

    @property
    def full_at(self) -> int:
        """The head at which it takes no more."""
        return self.after + max(SEGMENT_EVENTS, min(self.after // SEGMENTS_IN_LOG, LARGEST_SEGMENT))

    def add(self, position: int, type_: int, tags: Iterable[int]) -> None:
        """Add the next event."""
        self._types.add(type_)
        for tag in (EVERY_EVENT, *tags):
            key = tag << TYPE_BITS | type_
            if key in self._positions:
                self._positions[key].append(position)
            else:
                self._positions[key] = [position]
        self.head = position

    def extend(self, newer: Segment) -> None:
        """Add the events of the segment that follows."""
        self._types |= newer._types
        for key, positions in newer._positions.items():
            if key in self._positions:
                self._positions[key] += positions
            else:
                self._positions[key] = positions
        self.head = newer.head

    def tags(self, after: int, until: int) -> set[int]:
        """The tags of the events in `(after, until]`."""
        present = {key >> TYPE_BITS for key in list(self._positions)}
        return {tag for tag in present if self.first(tag, self.types(tag), after, until)}

    def types(self, tag: int) -> list[int]:
        """The types of the events that carry a tag."""
        return [type_ for type_ in list(self._types) if tag << TYPE_BITS | type_ in self._positions]

    def first(self, tag: int, types: Sequence[int], after: int, until: int) -> int | None:
        """The first position with the tag and one of the types in `(after, until]`."""
        first = until + 1
        for type_ in types:
            positions = self._positions.get(tag << TYPE_BITS | type_)
            if positions is not None and positions[-1] > after:
                first = min(first, positions[bisect_right(positions, after)])
        return first if first <= until else None

    def positions(self, tags: Sequence[int], types: Sequence[int], after: int, until: int) -> list[int]:
        """The positions with all the tags and one of the types in `(after, until]`, ascending."""
        found: list[int] = []
        for type_ in types:
            lists = [self._positions.get(tag << TYPE_BITS | type_) for tag in tags]
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
        for key in sorted(self._positions):
            tag, type_, positions = key >> TYPE_BITS, key & TYPE, self._positions[key]
            for position in positions[bisect_right(positions, after) :]:
                yield tag, type_, position


class Recent:
    """The segments of what is committed, for all threads of a store. Only the last one grows.

    Who changes them takes them out first: what is interrupted halfway is read again from the file.
    """

    def __init__(self, names: Names) -> None:
        self._names = names
        self._lock = threading.Lock()
        self._segments: tuple[Segment, ...] = ()
        plain: Any = speedup("strandline.engine.sqlite.plain")
        self._names_in = names_in if plain is None else plain.names_in
        self._add_rows = add_rows if plain is None else plain.add_rows

    @property
    def is_loaded(self) -> bool:
        """Whether the next look need not read all of it."""
        return bool(self._segments)

    def covering(self, connection: Connection, indexed_to: int, head: int) -> tuple[Segment, ...]:
        """Segments with all entries in `(indexed_to, head]`; the connection's snapshot has these marks."""
        known = self._segments
        if known and known[-1].head == head and known[0].after <= indexed_to < known[0].head:
            return known
        with self._lock:
            known, self._segments = self._segments, ()
            kept = tuple(segment for segment in known if segment.head > indexed_to)
            if kept and kept[0].after > indexed_to:
                # A snapshot that is older than what others have made of the log meanwhile.
                self._segments = known
                return self._load((Segment(indexed_to),), connection, head)
            self._segments = self._load(kept or (Segment(indexed_to),), connection, head)
            return self._segments

    def committed(self, new: Segment) -> None:
        """The events of `new` are in the log."""
        with self._lock:
            known, self._segments = self._segments, ()
            if known and known[-1].head == new.after:
                known[-1].extend(new)
                known = _sealed(known)
            self._segments = known

    def _load(self, segments: tuple[Segment, ...], connection: Connection, head: int) -> tuple[Segment, ...]:
        while segments[-1].head < head:
            last = segments[-1]
            until = min(head, last.full_at)
            rows = connection.rows(_RECENT_EVENTS, (last.head, until))
            if len(rows) != until - last.head:
                missing = until - last.head - len(rows)
                raise CorruptLog(f"of the positions {last.head + 1} to {until}, {missing} are not in the log")
            self._names.learn(connection, self._names_in(rows))
            self._add_rows(last, rows, self._names.ids, lambda name: self._number(connection, name))
            segments = _sealed(segments)
        return segments

    def _number(self, connection: Connection, text: str) -> int:
        found = self._names.find(connection, text)
        if found is None:
            raise CorruptLog(f"the log has no number for {text!r}")
        return found


Row = tuple[int, str, str, str | None, str | None]
"""What the index would say of an event: its position, type, tags (the key is one of them), stream and subject."""


def names_in(rows: list[Row]) -> set[str]:
    """The names that events are found by."""
    found = {name for _, _, tags, stream, subject in rows for name in _tags(tags, stream, subject)}
    return found.union(row[1] for row in rows)


def add_rows(segment: Segment, rows: list[Row], known: Mapping[str, int], find: Callable[[str], int]) -> None:
    """Add events to a segment; numbers that are not known are looked for."""
    for position, type_, tags, stream, subject in rows:
        numbers = [known.get(name) or find(name) for name in _tags(tags, stream, subject)]
        segment.add(position, known.get(type_) or find(type_), numbers)


def _tags(tags: str, stream: str | None, subject: str | None) -> tuple[str, ...]:
    return index_tags(split_tags(tags), stream, subject, None)


def _sealed(segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
    last = segments[-1]
    return (*segments, Segment(last.head)) if last.head >= last.full_at else segments


def _has(positions: list[int], position: int) -> bool:
    index = bisect_right(positions, position)
    return index > 0 and positions[index - 1] == position
