"""The oracle finds planted lies, and finds nothing where there is nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import strandline
from strandline import AppendCondition, Event, EventStore, Query, QueryItem, RecordedAppend, SequencedEvent
from strandline.event import from_microseconds
from strandline.testing.oracle import judge, violations

X, Y = Query.tag("x:1"), Query.tag("y:1")


@pytest.fixture
def store() -> EventStore:
    """Six positions: three decisions, a retag of event 1 from x:1 to y:1, one more decision."""
    store = strandline.connect("memory:")
    store.append(Event("A", {}, tags=["x:1"]), AppendCondition(X))
    store.append([Event("A", {"n": 1}, tags=["x:2"]), Event("B", {}, tags=["x:2"])], AppendCondition(X, 1))
    store.append(Event("B", {}, tags=["x:1"]), AppendCondition(X, 3))
    store.retag([1], replace={"x": [], "y": []}, add=["y:1"])
    store.append(Event("B", {}), AppendCondition.all_of(AppendCondition(Y, 5), AppendCondition(X, 5)))
    return store


def lie(value: Any, **changes: Any) -> Any:
    return msgspec.structs.replace(value, **changes)


Events = list[SequencedEvent]
Appends = list[RecordedAppend]


def told(store: EventStore, change: Callable[[Events, Appends], object]) -> list[tuple[str, int]]:
    events, appends = list(store.read()), list(store.appends())
    change(events, appends)
    return [(found.kind, found.position) for found in judge(events, appends)]


def test_the_oracle_finds_nothing_wrong_with_a_sound_log(store: EventStore) -> None:
    assert violations(store) == []
    assert violations(strandline.connect("memory:")) == []


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (AppendCondition(X, 3), [("condition", 4)] * 0),
        (AppendCondition(X, 0), [("condition", 4)]),
        (AppendCondition(Query.tag("x:2"), 1), [("condition", 4)] * 2),
        (AppendCondition(Query.tag("x:2"), 2), [("condition", 4)]),
        (AppendCondition(Query.of(QueryItem(types=["B"], tags=["x:1"])), 0), []),
        (
            AppendCondition(Query.of(QueryItem(types=["B"]), QueryItem(tags=["x:1"])), 0),
            [("condition", 4)] * 2,
        ),
        (AppendCondition(Query.of(QueryItem(where={"n": 1})), 1), [("condition", 4)]),
        (AppendCondition(Query.of(QueryItem(where={"n": 2})), 1), []),
        (AppendCondition(Y, 0), []),
        (AppendCondition(Query.all(), 3), []),
        (AppendCondition(Query.all(), 2), [("condition", 4)]),
        (AppendCondition(Query.all(), 4), [("condition", 4)]),
        (
            AppendCondition.all_of(AppendCondition(X, 3), AppendCondition(Query.types("B"), 2)),
            [("condition", 4)],
        ),
    ],
)
def test_a_condition_is_judged_with_the_tags_as_of_its_append(
    store: EventStore, condition: AppendCondition, expected: list[tuple[str, int]]
) -> None:
    def accept(_events: Events, appends: Appends) -> None:
        appends[2] = lie(appends[2], condition=condition)

    assert told(store, accept) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (AppendCondition(X, 4), [("condition", 6)]),
        (AppendCondition(Y, 4), [("condition", 6)]),
        (AppendCondition(Y, 0), [("condition", 6)]),
        (AppendCondition(X | Y, 4), [("condition", 6)]),
        (AppendCondition(Query.tag("x:2"), 4), []),
        (AppendCondition(Query.types("A"), 4), [("condition", 6)]),
        (AppendCondition(Query.of(QueryItem(tags=["x:1"], types=["B"])), 4), []),
        (AppendCondition(Query.types("$retagged"), 4), [("condition", 6)]),
        (AppendCondition(Query.tag("x:1", "y:1"), 0), []),
    ],
)
def test_an_accepted_append_that_a_retag_should_have_refused_is_found(
    store: EventStore, condition: AppendCondition, expected: list[tuple[str, int]]
) -> None:
    def accept(_events: Events, appends: Appends) -> None:
        appends[4] = lie(appends[4], condition=condition)

    assert told(store, accept) == expected


def test_unless_exists_asks_only_for_what_is_there() -> None:
    store = strandline.connect("memory:")
    store.append(Event("A", {}, tags=["x:1"]))
    store.retag([1], replace={"x": []})
    store.append(Event("A", {}), unless_exists=X)
    assert violations(store) == []


def test_a_gap_in_the_positions_is_found(store: EventStore) -> None:
    def skip(events: Events, _appends: Appends) -> None:
        events[2:] = [lie(event, position=event.position + 1) for event in events[2:]]

    assert told(store, skip)[0] == ("position", 4)


def test_an_id_that_is_there_twice_is_found(store: EventStore) -> None:
    def copy(events: Events, _appends: Appends) -> None:
        events[5] = lie(events[5], raw_id=events[0].raw_id)

    assert told(store, copy) == [("id", 1), ("id", 6)]


@pytest.mark.parametrize(
    ("index", "changes", "expected"),
    [
        (1, {"first": 3}, [("append", 3)]),
        (1, {"last": 2}, [("append", 4)]),
        (1, {"first": 1}, [("append", 1)]),
        (4, {"last": 7}, [("append", 8)]),
    ],
)
def test_appends_that_do_not_cover_the_log_are_found(
    store: EventStore, index: int, changes: dict[str, int], expected: list[tuple[str, int]]
) -> None:
    def move(_events: Events, appends: Appends) -> None:
        appends[index] = lie(appends[index], **changes)

    assert told(store, move) == expected


def test_a_missing_last_append_is_found(store: EventStore) -> None:
    assert told(store, lambda _events, appends: appends.pop()) == [("append", 6)]


def test_time_that_goes_back_is_found(store: EventStore) -> None:
    def earlier(events: Events, appends: Appends) -> None:
        events[5] = lie(events[5], raw_recorded_at=1)
        appends[4] = lie(appends[4], recorded_at=from_microseconds(1))

    assert told(store, earlier) == [("time", 6)]


def test_an_event_with_another_time_than_its_append_is_found(store: EventStore) -> None:
    def later(events: Events, _appends: Appends) -> None:
        events[5] = lie(events[5], raw_recorded_at=events[5].raw_recorded_at + 1)

    assert told(store, later) == [("time", 6)]


@pytest.mark.parametrize("status", ["unconditional", "not_recorded", "not_auditable"])
def test_a_condition_that_contradicts_its_status_is_found(store: EventStore, status: str) -> None:
    def contradict(_events: Events, appends: Appends) -> None:
        appends[2] = lie(appends[2], status=status)

    assert told(store, contradict) == [("status", 4)]


@pytest.mark.parametrize(
    "change",
    [
        {"position": 1, "removed": [], "added": []},
        {"position": 1, "removed": ["y:1"], "added": []},
        {"position": 1, "removed": [], "added": ["z"]},
        {"position": 1, "removed": ["y:1"], "added": ["y:1"]},
        {"position": 5, "removed": [], "added": ["z"]},
        {"position": 6, "removed": [], "added": ["z"]},
        {"position": 0, "removed": [], "added": ["z"]},
    ],
)
def test_a_retag_that_does_not_lead_to_the_present_tags_is_found(
    store: EventStore, change: dict[str, Any]
) -> None:
    def invent(events: Events, _appends: Appends) -> None:
        events[4] = lie(events[4], data=msgspec.json.encode({"changes": [change]}))

    assert ("retag", 5) in told(store, invent)


def test_a_swapped_event_is_found_by_the_conditions_that_it_breaks(store: EventStore) -> None:
    def plant(events: Events, _appends: Appends) -> None:
        events[2] = events[2].with_present_tags(("x:1",))

    assert told(store, plant) == []

    def plant_earlier(events: Events, appends: Appends) -> None:
        appends[2] = lie(appends[2], condition=AppendCondition(X, 2))
        plant(events, appends)

    assert told(store, plant_earlier) == [("condition", 4)]
