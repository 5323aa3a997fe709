"""Events of UmaDB's clients in a log. What Strandline has no other place for is a mark: a metadata name with a `$`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from ...event import Event, SequencedEvent
from ...names import RESERVED

TAG_ORDER = f"{RESERVED}tags"
"""The order in which the tags were given, if it is not alphabetical: their places among the sorted ones."""
GIVEN_ID = f"{RESERVED}uuid"
"""The uuid that was given, if it is not the id of the event: another event has it, or it is nil."""
_NIL = UUID(int=0)


def event_from_umadb(
    type: str,
    data: bytes,
    tags: Sequence[str] = (),
    uuid: UUID | None = None,
    metadata: Mapping[str, str] | None = None,
    *,
    has_new_id: bool = False,
) -> Event:
    """Return the event that stands for one of UmaDB in a log. UmaDB's clients read it as it was.

    `has_new_id` is for an event whose uuid an earlier event has. Adapters give the nil uuid to events without one, so
    it counts as none.
    """
    marks = {}
    if len(tags) > 1:
        marks = _order(list(dict.fromkeys(tags)))
    if uuid is not None and (has_new_id or uuid == _NIL):
        marks[GIVEN_ID] = str(uuid)
        uuid = None
    if not marks:
        return Event(type, data, tags=tags, id=uuid, metadata=metadata)
    return Event(type, data, tags=tags, id=uuid, metadata={**(metadata or {}), **marks})


def with_new_id(event: Event) -> Event:
    """Return the event with a new id. Clients still read the uuid that they gave."""
    marks = {GIVEN_ID: str(event.id)}
    return Event(event.type, event.data, tags=event.tags, metadata={**event.metadata, **marks})


def given_id(event: SequencedEvent) -> bytes:
    """Return the id that the client gave to an event."""
    given = None if event.raw_metadata is None else event.metadata.get(GIVEN_ID)
    try:
        return event.raw_id if given is None else UUID(given).bytes
    except ValueError:  # not from here
        return event.raw_id


def in_order(tags: tuple[str, ...], order: str | None) -> Iterable[str]:
    """Return tags in the order of a mark. After a retag they may be others: then as they are."""
    if order is None:
        return tags
    try:
        places = [int(place) for place in order.split(" ")]
    except ValueError:  # not from here
        return tags
    if sorted(places) != list(range(len(tags))):
        return tags
    return [tags[place] for place in places]


def _order(tags: list[str]) -> dict[str, str]:
    """Return the mark for the order of tags, nothing if they are sorted."""
    ordered = sorted(tags)
    return {} if tags == ordered else {TAG_ORDER: " ".join(str(ordered.index(tag)) for tag in tags)}
