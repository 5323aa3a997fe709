"""Lists of events that are not too large."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..event import SequencedEvent

LIST_BYTES = 8 * 1024 * 1024


def in_lists(events: list[SequencedEvent]) -> Iterator[list[SequencedEvent]]:
    """The events of a page in lists that are not too large."""
    if events and bytes_of(events) <= LIST_BYTES:
        yield events
        return
    listed: list[SequencedEvent] = []
    total = 0
    for event in events:
        size = bytes_of((event,))
        if listed and total + size > LIST_BYTES:
            yield listed
            listed, total = [], 0
        listed.append(event)
        total += size
    if listed:
        yield listed


def bytes_of(events: Sequence[SequencedEvent]) -> int:
    """How large the data and the metadata of events are together."""
    return sum(len(event.data) + len(event.raw_metadata or b"") for event in events)
