"""Copy a log from UmaDB into Strandline, event by event: positions, uuids, tags, metadata and tracking stay the same.

    python copy_log.py http://127.0.0.1:50051 school.db
    python copy_log.py http://127.0.0.1:50051 postgresql://localhost/school kafka-0 kafka-1

The names at the end are sources whose position may be newer than the newest event that has it. The copy can be
interrupted. Run it again: it goes on behind the last event that it has.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import groupby, islice

import umadb

import strandline
from strandline import Event, EventIdConflict, EventStore, InvalidInput, NotFound, TrackingConflict
from strandline.server.grpc import event_from_umadb

MANY, MOST = 1_000, 10_000
Tracking = tuple[str, int] | None


def copy(source: umadb.Client, target: EventStore, sources: Iterable[str] = ()) -> int:
    """Copy what the target does not have yet, and return its head."""
    names = set(sources)
    for tracking, events in appends(source.read(start=target.head() + 1)):
        if tracking is not None:
            names.add(tracking[0])
        append(target, events, tracking)
    for name in sorted(names):
        catch_up(target, name, source.get_tracking_info(name))
    return target.head()


def appends(events: Iterable[umadb.SequencedEvent]) -> Iterator[tuple[Tracking, list[umadb.SequencedEvent]]]:
    """Yield events that are copied in one append. Those that track a position came together, and stay together."""
    for tracking, group in groupby(events, tracked):
        at_once = MANY if tracking is None else MOST
        while together := list(islice(group, at_once)):
            yield tracking, together


def tracked(event: umadb.SequencedEvent) -> Tracking:
    """Return what an event tracks."""
    info = event.tracking_info
    return None if info is None else (info.source, info.position)


def append(target: EventStore, events: list[umadb.SequencedEvent], tracking: Tracking) -> None:
    """Append events. In UmaDB several events may have one uuid. Here the later ones get ids of their own."""
    try:
        result = target.append([translated(each, has_new_id=False) for each in events], tracking=tracking)
    except EventIdConflict:
        result = None
    if result is None or result.duplicate:
        known = {each.event.uuid for each in events if is_known(target, each)}
        again: list[Event] = []
        for each in events:
            again.append(translated(each, has_new_id=each.event.uuid in known))
            known.add(each.event.uuid)
        result = target.append(again, tracking=tracking)
    if result.last != events[-1].position:
        raise SystemExit(f"event {events[-1].position} is at {result.last}: does something else write here?")


def translated(sequenced: umadb.SequencedEvent, *, has_new_id: bool) -> strandline.Event:
    """Return an event as Strandline keeps it."""
    event = sequenced.event
    try:
        return event_from_umadb(
            event.event_type,
            bytes(event.data),
            event.tags,
            event.uuid,
            event.metadata,
            has_new_id=has_new_id and event.uuid is not None,
        )
    except InvalidInput as error:
        raise SystemExit(f"event {sequenced.position} cannot be copied: {error}") from error


def is_known(target: EventStore, sequenced: umadb.SequencedEvent) -> bool:
    """Return whether an event with this uuid is there already."""
    if sequenced.event.uuid is None:
        return False
    try:
        target.event(sequenced.event.uuid)
    except NotFound:
        return False
    return True


def catch_up(target: EventStore, name: str, position: int | None) -> None:
    """Store the position of a source that no event has."""
    if position is not None and target.tracked(name) != position:
        try:
            target.append((), tracking=(name, position))
        except TrackingConflict as error:
            raise SystemExit(f"the copy has tracked more of {name!r} than UmaDB: {error}") from error


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    with strandline.connect(sys.argv[2]) as store:
        print(f"{copy(umadb.Client(sys.argv[1]), store, sys.argv[3:]):,} events are in {sys.argv[2]}")
