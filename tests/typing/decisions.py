"""Decisions as users write them; `make check` holds it against mypy --strict. Not run, only read."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from datetime import datetime
from typing import assert_type

from strandline import (
    NOW,
    AsyncEventStore,
    DomainEvent,
    EventStore,
    Executed,
    Projection,
    SequencedEvent,
    TagId,
    command,
    on,
)


class CourseId(TagId): ...


class CourseDefined(DomainEvent, type="course-defined"):
    course: CourseId
    capacity: int = 0


class Course(Projection):
    id: CourseId
    capacity: int = 0

    @on
    def defined(self, event: CourseDefined) -> None:
        self.capacity = event.capacity


class Numbers(Projection, last_only=True):
    last: int = 0

    @on(CourseDefined, conflicts=False)
    def defined(self, event: CourseDefined, recorded: SequencedEvent) -> None:
        self.last = recorded.position


@command
def define(course: Course, capacity: int) -> Iterator[CourseDefined]:
    yield CourseDefined(course=course.id, capacity=capacity)


@command
def count(courses: list[Course], now: datetime = NOW) -> Generator[CourseDefined, None, int]:
    yield CourseDefined(course=courses[0].id)
    return len(courses)


@command(commutative=True, guard=[CourseDefined])
def touch(course: Course) -> CourseDefined:
    return CourseDefined(course=course.id)


def events() -> None:
    CourseDefined(CourseId("c1"), 3)  # type: ignore[call-arg]
    CourseDefined(course=CourseId("c1"), capacity="many")  # type: ignore[arg-type]
    event = CourseDefined(course=CourseId("c1"))
    event.capacity = 3  # type: ignore[misc]
    assert_type(event.course.tag, str)


def decide(store: EventStore) -> None:
    assert_type(store.execute(define, Course("c1"), 3), Executed[None])
    assert_type(store.execute(count, [Course("c1")]), Executed[int])
    assert_type(store.execute(count, [Course("c1")]).value, int | None)
    assert_type(store.execute(touch, Course("c1")), Executed[None])
    store.execute(define, Course("c1"))  # type: ignore[call-arg]
    store.execute(define, Course("c1"), "3")  # type: ignore[arg-type]
    store.execute(define, Numbers(), 3)  # type: ignore[arg-type]
    store.execute(define.with_options(attempts=2, metadata={"correlation_id": "k"}), Course("c1"), 3)
    assert_type(store.project(Course("c1")), Course)
    assert_type(store.project(Course, "c1"), Course)
    with store.boundary(Course("c1"), Numbers()) as boundary:
        assert_type(boundary.states, tuple[Course, Numbers])
        boundary.append(CourseDefined(course=boundary.states[0].id))
    for event in store.read():
        assert_type(event.decode(CourseDefined), CourseDefined)


async def decide_async(store: AsyncEventStore) -> None:
    assert_type(await store.execute(count, [Course("c1")]), Executed[int])
    assert_type(await store.project(Course("c1")), Course)
    async with store.boundary(Course("c1"), Numbers()) as boundary:
        assert_type(boundary.states, tuple[Course, Numbers])
