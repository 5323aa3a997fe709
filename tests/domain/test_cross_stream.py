"""Invariants across streams, and the hazards of Occurrent (`test_o…`, see test_hazards.py) as `decide` meets them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from places import Place
from strandline import (
    AppendCondition,
    AppendConditionFailed,
    Decision,
    Event,
    EventStore,
    Query,
    SequencedEvent,
)
from strandline.testing import interfering, violations

Write = Callable[[EventStore], Any]


@pytest.fixture
def store(place: Place) -> Iterator[EventStore]:
    with place.connect() as store:
        yield store
        assert violations(store) == []


def joined(*tags: str) -> Event:
    return Event("Joined", {}, tags=tags)


def deciding(*tags: str) -> Callable[[Sequence[SequencedEvent]], Decision[list[int]]]:
    """Decides on one event with these tags; the value is what it has seen."""
    return lambda events: Decision([event.position for event in events], [joined(*tags)])


def test_two_streams_are_read_and_one_is_written_if_neither_moved(store: EventStore) -> None:
    """S0-47: student and course are streams without tags; the enrolment goes to the course."""
    student, course = "student:123", "course:432"
    store.append(Event("Registered", {}), stream=student)
    store.append(Event("Defined", {}), stream=course)
    read = store.read(Query.stream(student) | Query.stream(course))
    assert [event.type for event in read] == ["Registered", "Defined"]
    for moved in (student, course):
        stale = store.read(read.query).condition
        store.append(Event("Renamed", {}), stream=moved)
        with pytest.raises(AppendConditionFailed) as caught:
            store.append(joined(), stale, stream=course)
        assert caught.value.conflict.stream == moved
    condition = store.read(read.query).condition
    store.append(Event("Renamed", {}), stream="student:124")
    assert store.append(joined(), condition, stream=course).count == 1
    assert [store.count(Query.stream(name)) for name in (student, course)] == [2, 3]


def test_a_decision_on_two_streams_is_made_again_if_either_moves(store: EventStore) -> None:
    student, course = "student:123", "course:432"
    rivals = [Event("Renamed", {}, stream=name) for name in (student, course, "course:433")]
    with interfering(store, *rivals):
        executed = store.decide(Query.stream(student) | Query.stream(course), deciding(), stream=course)
    assert (executed.attempts, executed.value, executed.position) == (3, [1, 2], 4)
    assert [event.position for event in store.read(Query.stream(course))] == [2, 4]


def test_decisions_that_share_a_tag_meet_although_they_write_to_different_streams(store: EventStore) -> None:
    """S0-37: W1 {user:123, course:432} and W2 {user:123, course:999} go to different partitions."""
    first, second = ["user:123", "course:432"], ["user:123", "course:999"]
    with interfering(store, lambda: store.decide(second, deciding(*second))):
        executed = store.decide(first, deciding(*first))
    assert (executed.attempts, executed.value) == (2, [1])
    assert [event.stream for event in store.read()] == ["dcb:partition:33", "dcb:partition:12"]


@pytest.mark.parametrize(
    "write",
    [
        lambda store: store.append(joined("user:123"), AppendCondition(Query.tag("course:1"))),
        lambda store: store.append(joined("user:123")),
        lambda store: store.append(joined("user:123"), stream="elsewhere"),
        lambda store: store.decide("elsewhere", deciding("user:123")),
        lambda store: store.decide({"course:1"}, deciding("course:1"), tag_with=lambda _: ["user:123"]),
        lambda store: store.retag(Query.types("Other"), add=["user:123"]),
    ],
    ids=["other condition", "no condition", "stream", "decided in a stream", "tagged by a function", "retag"],
)
def test_o1_whoever_writes_an_event_of_the_boundary_is_noticed(store: EventStore, write: Write) -> None:
    store.append(Event("Other", {}))
    with interfering(store, lambda: write(store)):
        executed = store.decide({"user:123"}, deciding("user:123"))
    assert executed.attempts == 2
    assert len(executed.value or []) == 1


def test_o4_a_decision_stops_nobody_who_does_not_see_its_events(store: EventStore) -> None:
    store.append(joined("user:123"))
    with interfering(store, lambda: store.decide({"user:123", "course:432"}, deciding("course:432"))):
        executed = store.decide({"user:123"}, deciding("user:123"), attempts=1)
    assert executed.value == [1]
    assert store.decide({"user:123"}, deciding("user:123"), attempts=1).value == [1, 3]


def test_o5_all_of_two_tags_is_not_spoiled_by_one_of_them(store: EventStore) -> None:
    store.append(joined("user:1", "course:1"))
    both = Query.tag("user:1", "course:1")
    with interfering(store, [joined("user:1", "course:2"), joined("user:2", "course:1")]):
        assert store.decide(both, deciding("user:1"), attempts=1).value == [1]
    with interfering(store, joined("user:1", "course:1")):
        assert store.decide(both, deciding("user:1")).attempts == 2


def test_o7_reads_at_different_heads_keep_their_own_after(store: EventStore) -> None:
    """S1-6, S1-8: a tag is read early, a stream late; what the tag got between the two is not forgotten."""
    early = store.read(Query.tag("a"))
    store.append(joined("a"))
    store.append(Event("Noted", {}), stream="b")
    late = store.read(Query.stream("b"))
    with pytest.raises(AppendConditionFailed) as caught:
        store.append(joined(), AppendCondition.all_of(late.condition, early.condition))
    assert (caught.value.conflict.position, caught.value.after) == (1, 0)
    store.append(Event("Noted", {}), stream="c")
    fresh = AppendCondition.all_of(store.read(Query.tag("a")).condition, late.condition)
    assert [part.after for part in fresh.parts] == [3, 2]
    store.append(joined(), fresh)
    *_, append = store.appends()
    assert append.condition == fresh
