"""A retag that adds to each event tags of its own is one append, and says only what changed."""

from __future__ import annotations

import pytest

from places import Place
from strandline import AppendCondition, AppendConditionFailed, Event, EventStore, InvalidInput, Query
from strandline.retag import TagsOfEach, changes_of
from strandline.store import only


def add(store: EventStore, tags_of: dict[int, list[str]]):
    return only(store.sequencer.run((TagsOfEach(tags_of),)))


def test_each_event_gets_its_own_tags_and_what_it_has_is_not_told_again(place: Place) -> None:
    with place.connect() as store:
        store.append([Event("Counted", number, tags=[f"n:{number}"]) for number in range(3)])
        result = add(store, {1: ["even", "n:0"], 2: ["odd"], 3: ["n:2"]})
        assert (result.first, result.count) == (4, 1)
        *events, retagged = store.read()
        assert [event.tags for event in events] == [("even", "n:0"), ("n:1", "odd"), ("n:2",)]
        assert [(c.position, c.added, c.removed) for c in changes_of(retagged)] == [
            (1, ("even",), ()),
            (2, ("odd",), ()),
        ]
        assert [event.position for event in store.read(Query.tag("odd"))] == [2]
        assert add(store, {1: ["even"], 2: ["odd"]}).count == 0


def test_an_open_decision_whose_query_gains_an_event_is_refused(place: Place) -> None:
    with place.connect() as store:
        store.append([Event("Counted", number) for number in range(2)])
        odd, even = (store.read(Query.tag(tag)).condition for tag in ("odd", "even"))
        add(store, {2: ["odd"]})
        store.append(Event("Decided", 0), even)
        with pytest.raises(AppendConditionFailed, match="event 3"):
            store.append(Event("Decided", 0), odd)


def test_positions_without_an_event_and_the_stores_own_events_are_refused(place: Place) -> None:
    with place.connect() as store:
        store.append(Event("Counted", 0))
        add(store, {1: ["a"]})
        for position in (2, 3):
            with pytest.raises(InvalidInput):
                add(store, {1: ["b"], position: ["b"]})
        assert store.head() == 2
        assert not store.exists(Query.tag("b"))
        store.append(Event("Counted", 1), AppendCondition(Query.tag("b")))
