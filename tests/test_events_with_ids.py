"""Engines find events by their ids, as they were appended."""

from __future__ import annotations

from uuid import uuid4

from places import Place
from strandline import Event


def test_events_are_found_by_their_ids_in_the_order_of_the_log(place: Place) -> None:
    events = [Event("Counted", number, tags=[f"n:{number}"]) for number in range(5)]
    with place.connect() as store:
        store.append(events[:3])
        store.append(events[3:])
        wanted = [events[4].raw_id, uuid4().bytes, events[1].raw_id]
        assert [event.position for event in store.engine.events_with_ids(wanted)] == [2, 5]
        assert store.engine.events_with_ids([uuid4().bytes]) == []
        assert store.engine.events_with_ids([]) == []


def test_found_events_have_the_tags_that_they_were_appended_with(place: Place) -> None:
    event = Event("Paid", {}, tags=["wallet:w1"], stream="s", subject="x", metadata={"a": "b"}).with_key("k")
    with place.connect() as store:
        store.append(event)
        store.retag([1], add=["vip"], replace={"wallet": ["w2"]})
        (found,) = store.engine.events_with_ids([event.raw_id])
        assert (found.tags, found.key, found.stream, found.subject) == (("wallet:w1",), "k", "s", "x")
        assert (found.raw_id, found.data, found.metadata) == (event.raw_id, event.data, event.metadata)
        assert next(iter(store.read())).tags == ("vip", "wallet:w2")
