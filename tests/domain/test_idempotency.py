"""Idempotency keys: a command that is sent again is done once, whatever happened in between."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from enrolment import Course, CourseDefined, CourseFull, CourseId, Student, StudentSubscribed, enroll

from elsewhere import elsewhere
from places import Place
from strandline import (
    Event,
    EventStore,
    InvalidInput,
    Query,
    QueryItem,
    SequencedEvent,
    command,
)
from strandline.engine.maintenance import check_log
from strandline.testing import violations

KEY = "enrolment.enroll:k1"


@pytest.fixture
def store(place: Place) -> Iterator[EventStore]:
    with place.connect() as store:
        store.append(CourseDefined(course=CourseId("c1"), capacity=1))
        yield store


@command
def sell(course: Course, seats: int) -> Generator[StudentSubscribed, None, int]:
    if course.taken + seats > course.capacity:
        raise CourseFull(course.id)
    for number in range(seats):
        yield StudentSubscribed(student=Student(f"s{number}").id, course=course.id)
    return seats


def test_a_repeat_is_answered_with_the_first_result_and_decides_nothing(store: EventStore) -> None:
    once = enroll.with_options(idempotency_key="k1")
    first = store.execute(once, Student("s1"), Course("c1"))
    again = store.execute(once, Student("s1"), Course("c1"))  # the course is full now: it would be refused
    assert (first.position, first.duplicate) == (2, False)
    assert (again.first, again.last, again.count, again.duplicate, again.value) == (2, 2, 1, True, None)
    assert store.head() == 2
    with pytest.raises(CourseFull):
        store.execute(enroll.with_options(idempotency_key="k2"), Student("s1"), Course("c1"))


def test_the_result_of_a_repeat_has_all_events_of_the_first(place: Place) -> None:
    with place.connect() as store:
        store.append([Event("Other", {}), CourseDefined(course=CourseId("c1"), capacity=5)])
        once = sell.with_options(idempotency_key="k")
        assert store.execute(once, Course("c1"), 3).value == 3
        store.append(Event("Other", {}))
        again = store.execute(once, Course("c1"), 3)
        assert (again.first, again.last, again.count, again.value) == (3, 5, 3, None)


def test_keys_of_other_commands_are_others(store: EventStore) -> None:
    store.execute(enroll.with_options(idempotency_key="k1"), Student("s1"), Course("c1"))
    with pytest.raises(CourseFull):
        store.execute(sell.with_options(idempotency_key="k1"), Course("c1"), 1)


def test_a_name_that_stays_keeps_the_keys_of_a_function_that_is_renamed(store: EventStore) -> None:
    @command(name="course.take")
    def take(course: Course) -> Iterator[StudentSubscribed]:
        yield StudentSubscribed(student=Student("s1").id, course=course.id)

    @command(name="course.take")
    def take_seat(course: Course) -> Iterator[StudentSubscribed]:
        yield StudentSubscribed(student=Student("s1").id, course=course.id)

    assert not store.execute(take.with_options(idempotency_key="k"), Course("c1")).duplicate
    assert store.execute(take_seat.with_options(idempotency_key="k"), Course("c1")).duplicate
    with pytest.raises(InvalidInput, match="command name"):
        command(name="")(lambda: None)


def test_a_command_that_wrote_nothing_leaves_no_key(store: EventStore) -> None:
    once = sell.with_options(idempotency_key="k")
    assert store.execute(once, Course("c1"), 0).value == 0
    assert store.execute(once, Course("c1"), 1).count == 1


def test_the_key_is_no_tag_that_anybody_sees_and_survives_retags(store: EventStore) -> None:
    once = enroll.with_options(idempotency_key="k1")
    store.execute(once, Student("s1"), Course("c1"))
    store.retag([2], add=["!first", "vip"], replace={"student": ["s9"]})
    (event,) = store.read(Query.of(QueryItem(key=KEY)))
    assert event.tags == ("!first", "course:c1", "student:s9", "vip")
    assert event.key == KEY
    assert SequencedEvent.from_json(event.to_json()) == event
    assert Event.from_json(event.to_json()).key == KEY
    assert store.execute(once, Student("s1"), Course("c1")).duplicate
    assert store.stats().tags == len({tag for event in store.read() for tag in event.tags})
    *_, append = [append for append in store.appends() if append.condition is not None]
    assert {part.fail_if_events_match.items[0].key for part in append.condition.parts} == {None, KEY}  # type: ignore[union-attr]
    assert violations(store) == []


def test_a_log_with_keys_is_sound(kept: Place) -> None:
    with kept.connect() as store:
        store.append(CourseDefined(course=CourseId("c1"), capacity=9))
        for number in range(3):
            once = enroll.with_options(idempotency_key=f"k{number}")
            store.execute(once, Student(f"s{number}"), Course("c1"))
        store.retag(Query.tag("course:c1"), add=["!", "seen"])
    report = check_log(kept.url, **kept.options)
    assert report.problems == []
    assert report.conditions == 3


def test_twins_that_race_are_one(store: EventStore) -> None:
    """Each twin may see the other's event in its read; it must not take it for a full course."""
    outcomes: list[Any] = []

    def buy() -> None:
        try:
            once = enroll.with_options(idempotency_key="k", attempts=50)
            outcomes.append(store.execute(once, Student("s1"), Course("c1")).position)
        except Exception as error:
            outcomes.append(error)

    threads = [threading.Thread(target=buy) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == [2] * 8
    assert store.head() == 2


def test_a_twin_between_read_and_decision_is_found(store: EventStore) -> None:
    """The twin's append comes after the read and before the decision ends: the append finds the key."""
    done = []

    @command
    def once_more(course: Course) -> Iterator[StudentSubscribed]:
        if not done:
            done.append(True)
            elsewhere(store.execute, once, Course("c1"))
        yield StudentSubscribed(student=Student("s1").id, course=course.id)

    once: Any = once_more.with_options(idempotency_key="k")
    executed = store.execute(once, Course("c1"))
    assert (executed.position, executed.duplicate, store.head()) == (2, True, 2)


def test_options_add_up(store: EventStore) -> None:
    both = enroll.with_options(attempts=3, metadata={"by": "me"}).with_options(
        idempotency_key="k1", metadata={"via": "web"}
    )
    assert (both.options.attempts, both.options.idempotency_key) == (3, "k1")
    store.execute(both, Student("s1"), Course("c1"))
    *_, event = store.read()
    assert event.metadata == {"by": "me", "via": "web"}


def test_cause_and_correlation_flow_from_event_to_event(store: EventStore) -> None:
    (first,) = store.read()
    store.execute(enroll.caused_by(first), Student("s1"), Course("c1"))
    *_, second = store.read()
    assert second.metadata == {"causation_id": str(first.id), "correlation_id": str(first.id)}
    again = enroll.caused_by(second).options.metadata
    assert again == {"causation_id": str(second.id), "correlation_id": str(first.id)}


@pytest.mark.parametrize("key", ["", "a\nb", "x" * 257, 7])
def test_bad_keys_are_refused_when_they_are_given(key: Any) -> None:
    with pytest.raises(InvalidInput, match="key"):
        enroll.with_options(idempotency_key=key)


@pytest.mark.parametrize("attempts", [0, -1, True, "3"])
def test_bad_attempts_are_refused_when_they_are_given(attempts: Any) -> None:
    with pytest.raises(InvalidInput, match="attempts"):
        enroll.with_options(attempts=attempts)
