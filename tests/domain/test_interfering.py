"""Conflicts on demand: what users test their retries with makes real conflicts, on every engine."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from enrolment import (
    CapacityChanged,
    Course,
    CourseDefined,
    CourseFull,
    CourseId,
    Invoices,
    InvoiceWritten,
    Student,
    StudentId,
    StudentSubscribed,
    define,
    enroll,
    join,
    write_invoice,
)

import strandline
from places import Place
from strandline import AppendConditionFailed, Event, EventStore, InvalidInput, Query
from strandline.testing import interfering, violations


@pytest.fixture
def store(place: Place) -> Iterator[EventStore]:
    with place.connect() as store:
        store.append(CourseDefined(course=CourseId("c1"), capacity=3))
        yield store
        assert violations(store) == []


def subscribed(student: str, course: str = "c1") -> StudentSubscribed:
    return StudentSubscribed(student=StudentId(student), course=CourseId(course))


def students(store: EventStore) -> list[str]:
    return [event.decode(StudentSubscribed).student for event in store.read(Query.types("StudentSubscribed"))]


def test_each_attempt_meets_one_rival_and_decides_again_on_what_is_new(store: EventStore) -> None:
    with interfering(store, subscribed("x"), subscribed("y")) as rivals:
        executed = store.execute(enroll, Student("s1"), Course("c1"))
        assert (executed.attempts, rivals.used) == (3, 2)
        with pytest.raises(CourseFull):
            store.execute(enroll, Student("s2"), Course("c1"))
    assert students(store) == ["x", "y", "s1"]


def test_a_command_may_find_that_a_rival_took_the_last_seat(store: EventStore) -> None:
    store.append([subscribed("a"), subscribed("b")])
    with interfering(store, subscribed("x")) as rivals, pytest.raises(CourseFull):
        store.execute(enroll, Student("s1"), Course("c1"))
    assert rivals.used == 1
    assert students(store) == ["a", "b", "x"]


def test_a_command_gives_up_when_there_are_more_rivals_than_attempts(store: EventStore) -> None:
    with (
        interfering(store, *map(subscribed, "xyz")) as rivals,
        pytest.raises(AppendConditionFailed) as caught,
    ):
        store.execute(enroll.with_options(attempts=2), Student("s1"), Course("c1"))
    assert (caught.value.attempts, caught.value.conflict.position, rivals.used) == (2, 3, 2)
    assert "more attempts" in caught.value.hint
    assert students(store) == ["x", "y"]


def by_hand(store: EventStore) -> None:
    with store.boundary(Course("c1")) as b:
        b.append(subscribed(f"s{b.states[0].taken}"))


def test_a_boundary_by_hand_is_refused(store: EventStore) -> None:
    with interfering(store, [subscribed("x"), subscribed("y")]) as rivals:
        with pytest.raises(AppendConditionFailed):
            by_hand(store)
        assert rivals.used == 1
        by_hand(store)
    assert students(store) == ["x", "y", "s2"]


def test_a_commutative_command_meets_rivals_and_does_not_mind(store: EventStore) -> None:
    with interfering(store, subscribed("x"), CapacityChanged(course=CourseId("c1"), capacity=9)) as rivals:
        assert store.execute(join, Course("c1"), "s1").attempts == 1
        assert store.execute(join, Course("c1"), "s2").attempts == 2
    assert rivals.used == 2
    assert students(store) == ["x", "s1", "s2"]


def test_who_reads_or_writes_nothing_or_decides_nothing_meets_nobody(store: EventStore) -> None:
    with interfering(store, subscribed("x")) as rivals:
        store.project(Course("c1"))
        store.append(subscribed("a"))
        assert store.execute(define, Course("c1"), 5).count == 0
    assert rivals.used == 0
    assert store.execute(enroll, Student("s1"), Course("c1")).attempts == 1
    assert students(store) == ["a", "s1"]


def test_a_rival_may_do_anything_and_is_left_alone_while_it_does(store: EventStore) -> None:
    def rival() -> None:
        assert store.execute(enroll, Student("x"), Course("c1")).attempts == 1

    def retag() -> None:
        store.retag(1, replace={"course": ["c2"]})  # then the course has no seats

    with interfering(store, rival, retag) as rivals, pytest.raises(CourseFull):
        store.execute(enroll, Student("s1"), Course("c1"))
    assert rivals.used == 2
    assert students(store) == ["x"]


def test_blocks_may_be_nested(store: EventStore) -> None:
    with interfering(store, subscribed("outer")) as outer:
        with interfering(store) as inner:
            pass
        assert store.execute(enroll, Student("s1"), Course("c1")).attempts == 2
        with interfering(store, subscribed("inner")) as inner, pytest.raises(CourseFull):
            store.execute(enroll, Student("s2"), Course("c1"))
    assert (outer.used, inner.used) == (1, 1)
    assert students(store) == ["outer", "s1", "inner"]


def test_a_rival_that_fails_is_not_taken_for_a_conflict(store: EventStore) -> None:
    def late() -> None:
        store.append(subscribed("x"), strandline.AppendCondition(Query.all()))

    same = Event("Same", {}, tags=["course:c1"])
    store.append(same)

    async def awaited() -> None: ...

    for rival, told in ((late, "newer than position 0"), (same, "wrote nothing"), (awaited, "awaited")):
        with interfering(store, rival, subscribed("y")) as rivals:
            with pytest.raises(AssertionError, match=told):
                store.execute(enroll, Student("s1"), Course("c1"))
            assert rivals.used == 0
    assert students(store) == []


def test_what_cannot_be_a_rival_is_refused_before_anything_happens(store: EventStore) -> None:
    with pytest.raises(InvalidInput), interfering(store, subscribed("x"), 7):  # type: ignore[arg-type]
        pass
    assert store.execute(enroll, Student("s1"), Course("c1")).attempts == 1


def test_async_stores_meet_rivals_too(place: Place) -> None:
    async def main() -> None:
        async with place.connect_async() as store:
            await store.append(CourseDefined(course=CourseId("c1"), capacity=9))

            async def rival() -> None:
                assert (await store.execute(enroll, Student("z"), Course("c1"))).attempts == 1

            idle: list[str] = []
            with interfering(store, subscribed("y"), rival, lambda: idle.append("called")) as rivals:
                executed = await store.execute(enroll, Student("s1"), Course("c1"))
                assert (executed.attempts, rivals.used, idle) == (3, 3, ["called"])
            with interfering(store, subscribed("x")), pytest.raises(AppendConditionFailed):
                async with store.boundary(Course("c1")) as b:
                    b.append(subscribed("s2"))
            assert (await store.project(Course("c1"))).taken == 4

    asyncio.run(main())


def test_rivals_are_met_alike_whatever_was_decided_before(store: EventStore) -> None:
    store.execute(write_invoice, Invoices())  # the store knows the state now, without a read
    with interfering(store, InvoiceWritten(number=2)) as rivals, pytest.raises(AppendConditionFailed):
        store.execute(write_invoice.with_options(attempts=1), Invoices())
    assert rivals.used == 1
    store.execute(write_invoice, Invoices())
    assert store.project(Invoices()).last == 3
    assert len(store.decisions) > 0
