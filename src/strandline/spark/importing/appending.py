"""Appends staged events in their order, chunk by chunk. What the log has already tells how far an earlier run came."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import msgspec

from ...engine.rules import is_repeat
from ...errors import EventIdConflict
from ...event import Event, SequencedEvent
from ...store import EventStore
from .job import Progress
from .origin import Staged

CHUNK_EVENTS = 1_000
CHUNK_BYTES = 8 * 1024 * 1024

T = TypeVar("T")
Source = Callable[[], Iterable[Staged]]
"""Gives the events of a source in their order, as often as it is called."""


class Appended(msgspec.Struct):
    """What became of the events; `first` and `last` are positions, 0 if nothing was written."""

    written: int = 0
    repeated: int = 0
    first: int = 0
    last: int = 0


def append_in_order(store: EventStore, source: Source, total: int, told: Progress | None = None) -> Appended:
    """Append what the log does not have yet. Nothing is written if it has another event with one of the ids."""
    appended = Appended()
    known = _known(store, source, total, told) if store.head() else None
    for number, chunk in enumerate(ahead(chunks(source()))):
        already = known[number] if known else 0
        fresh = [] if already == len(chunk) else missing(store, chunk) if already else first_of_each(chunk)
        appended.repeated += len(chunk) - _append(store, fresh, appended)
        if told is not None:
            told("appending", appended.written + appended.repeated, total)
    return appended


def _known(store: EventStore, source: Source, total: int, told: Progress | None) -> list[int]:
    """How many events of each chunk the log has already."""
    counts, seen = [], 0
    for chunk in ahead(chunks(source())):
        counts.append(len(chunk) - len(missing(store, chunk)))
        seen += len(chunk)
        if told is not None:
            told("looking for what is there", seen, total)
    return counts


def _append(store: EventStore, fresh: Sequence[Staged], appended: Appended) -> int:
    """Append the events; returns how many, without those that somebody else appended meanwhile."""
    while fresh:
        try:
            result = store.append([staged.event for staged in fresh])
        except EventIdConflict:
            left = missing(store, fresh)
            if len(left) == len(fresh):
                raise
            fresh = left
        else:
            if not result.duplicate:
                appended.written += len(fresh)
                appended.first, appended.last = appended.first or result.first, result.last
                return len(fresh)
            return 0
    return 0


def missing(store: EventStore, chunk: Sequence[Staged]) -> list[Staged]:
    """Those that the log does not have, each once."""
    found = store.engine.events_with_ids([staged.event.raw_id for staged in chunk])
    in_log = {event.raw_id: event for event in found}
    for staged in chunk:
        other = in_log.get(staged.event.raw_id)
        if other is not None and not _is_same(staged.event, other):
            raise _conflict(staged, f"the log has another event with this id at position {other.position:,}")
    return first_of_each([staged for staged in chunk if staged.event.raw_id not in in_log])


def first_of_each(chunk: Sequence[Staged]) -> list[Staged]:
    """The events without repetitions."""
    by_id: dict[bytes, Staged] = {}
    for staged in chunk:
        first = by_id.setdefault(staged.event.raw_id, staged)
        if first is not staged and not _is_same(staged.event, SequencedEvent.of(first.event, 0, 0)):
            raise _conflict(staged, f"{first.origin.place(first.row)} has this id, too, for another event")
    return list(by_id.values())


def _is_same(event: Event, other: SequencedEvent) -> bool:
    return is_repeat([event], [other])


def _conflict(staged: Staged, why: str) -> EventIdConflict:
    return EventIdConflict(
        f"{staged.origin.place(staged.row)} has the id {staged.event.id}: {why}",
        hint="an id names one event; give the other one a new id, or import events without ids under another name",
    )


def chunks(events: Iterable[Staged]) -> Iterator[list[Staged]]:
    """Events by what is appended at once: few enough that live writers hardly notice."""
    chunk: list[Staged] = []
    size = 0
    for staged in events:
        more = len(staged.event.data) + sum(map(len, staged.event.metadata.values()))
        if chunk and (len(chunk) == CHUNK_EVENTS or size + more > CHUNK_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(staged)
        size += more
    if chunk:
        yield chunk


def ahead(iterable: Iterable[T]) -> Iterator[T]:
    """The same, of which the next one is always being prepared: while a database writes, this process can read."""
    iterator, end = iter(iterable), object()
    with ThreadPoolExecutor(1, "strandline-ahead") as thread:
        following = thread.submit(next, iterator, end)
        while (one := following.result()) is not end:
            following = thread.submit(next, iterator, end)
            yield one  # type: ignore[misc]
