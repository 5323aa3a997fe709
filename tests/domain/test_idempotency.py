"""Idempotency keys: a command that is sent again is done once, whatever happened in between."""

from __future__ import annotations

import copy
import threading
from collections.abc import Generator, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from enrolment import Course, CourseDefined, CourseFull, CourseId, Student, StudentSubscribed, enroll

from elsewhere import elsewhere
from places import Place
from strandline import (
    Event,
    EventStore,
    IdempotencyKeyReused,
    InvalidInput,
    Query,
    QueryItem,
    SequencedEvent,
    command,
    connect,
)
from strandline.domain.command import fingerprint_of
from strandline.engine.maintenance import check_log
from strandline.testing import given, interfering, violations

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


def test_a_repeat_has_the_events_that_were_written(store: EventStore) -> None:
    once = enroll.with_options(idempotency_key="k1", metadata={"user": "ada"})
    first = store.execute(once, Student("s1"), Course("c1"))
    again = store.execute(once, Student("s1"), Course("c1"))
    for done in (first, again):
        (event,) = done.events
        assert event.decode(StudentSubscribed).student == "s1"
        assert (event.metadata, event.tags) == ({"user": "ada"}, ("course:c1", "student:s1"))
    assert first.events == again.events
    assert (first.head, again.head) == (1, 2)


def test_what_came_of_a_decision_says_what_it_saw_and_where_its_events_are(store: EventStore) -> None:
    done = store.execute(enroll, Student("s1"), Course("c1"))
    assert ([event.type for event in done.events], done.head, done.stream) == (["StudentSubscribed"], 1, None)
    decided = store.decide("s", lambda _: [Event("A", {}), Event("B", {})])
    assert ([event.type for event in decided.events], decided.head, decided.stream) == (["A", "B"], 2, "s")
    nothing = store.decide("s", lambda _: [])
    assert (nothing.events, nothing.head, nothing.stream) == ((), 4, None)
    event = Event("C", {}, tags=["x", "y"], stream="t")
    assert store.decide(Query.tag("x"), lambda _: [event]).stream == "t"
    assert store.decide(Query.tag("y"), lambda _: [event]).events == (event,)  # a repeat, by its id


def test_other_arguments_under_the_same_key_are_refused(store: EventStore) -> None:
    once = sell.with_options(idempotency_key="k1")
    first = store.execute(once, Course("c1"), 1)
    for arguments in ((Course("c2"), 1), (Course("c1"), 2)):
        with pytest.raises(IdempotencyKeyReused) as refused:
            store.execute(once, *arguments)
        assert str(refused.value) == (
            "test_idempotency.sell was done with the key 'k1' and other arguments, at position 2"
        )
        assert (refused.value.status, refused.value.retry) == (422, "no")
    assert store.head() == first.last
    assert store.execute(once, course="c1", seats=1).duplicate  # type: ignore[arg-type]
    other_key = sell.with_options(idempotency_key="k2")
    assert not store.execute(other_key, Course("c2"), 0).duplicate


def test_a_twin_with_other_arguments_that_was_faster_is_found_by_the_append(store: EventStore) -> None:
    once = sell.with_options(idempotency_key="k1")
    store.append(CourseDefined(course=CourseId("c2"), capacity=1))
    with interfering(store, lambda: store.execute(once, Course("c2"), 1)) as rivals:
        with pytest.raises(IdempotencyKeyReused):
            store.execute(once, Course("c1"), 1)
        assert rivals.used == 1
    assert store.head() == 3


@pytest.mark.parametrize(
    "value",
    [
        1,
        1.5,
        "a",
        None,
        True,
        b"x",
        UUID(int=1),
        Decimal("1.10"),
        {"b": 1, "a": [2]},
        {"x", "y", "z"},
        object(),
    ],
)
def test_a_fingerprint_is_the_same_for_the_same_arguments(value: Any) -> None:
    one, other = fingerprint_of([Course("c1"), value]), fingerprint_of([Course("c1"), copy.deepcopy(value)])
    assert one == other != fingerprint_of([Course("c2"), value])


def test_a_fingerprint_is_the_same_in_every_process() -> None:
    arguments: list[Any] = [Course("c1"), [Course("c2")], {"a", "b", "c"}, datetime(2026, 1, 1, tzinfo=UTC)]
    assert fingerprint_of(arguments) == "5764b1546f9537d83eb018f40feb4121"


def test_the_fingerprint_is_no_metadata_and_goes_with_the_event(store: EventStore) -> None:
    store.execute(sell.with_options(idempotency_key="k1"), Course("c1"), 1)
    (event,) = store.read(Query.types(StudentSubscribed))
    assert event.metadata == {}
    assert len(event.arguments) == 32
    twin = SequencedEvent.from_json(event.to_json())
    assert (twin, twin.arguments, twin.metadata) == (event, event.arguments, {})
    with connect("memory:") as copied:
        copied.append([Event.from_json(each.to_json()) for each in store.read()])
        assert copied.execute(sell.with_options(idempotency_key="k1"), Course("c1"), 1).duplicate
        with pytest.raises(IdempotencyKeyReused):
            copied.execute(sell.with_options(idempotency_key="k1"), Course("c2"), 1)


def test_an_event_of_an_older_log_has_no_fingerprint(store: EventStore) -> None:
    store.append(StudentSubscribed(student="s1", course="c1").to_event().with_key(KEY))  # type: ignore[arg-type]
    done = store.execute(enroll.with_options(idempotency_key="k1"), Student("s2"), Course("c1"))
    assert done.duplicate


def test_a_story_shows_events_without_fingerprints() -> None:
    defined = CourseDefined(course=CourseId("c1"), capacity=1)
    decision = given(defined).when(sell.with_options(idempotency_key="k1"), Course("c1"), 1)
    assert [event.metadata for event in decision.events] == [{}]
