"""Streams by rule: an event class names the id whose tag is the stream of its events."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from enrolment import Course, CourseId, StudentId

from places import Place
from strandline import (
    AppendCondition,
    AppendConditionFailed,
    DomainEvent,
    Event,
    EventStore,
    InvalidInput,
    Projection,
    Query,
    command,
    on,
)


class LessonEvent(DomainEvent, stream="course"):
    course: CourseId


class LessonGiven(LessonEvent):
    topic: str


class LessonMissed(LessonEvent, stream="student"):
    student: StudentId


class Lessons(Projection):
    id: CourseId
    given: int = 0

    @on
    def count(self, event: LessonGiven) -> None:
        self.given += 1


@command
def give(lessons: Lessons, topic: str) -> Iterator[LessonGiven]:
    yield LessonGiven(course=lessons.id, topic=topic)


@pytest.fixture
def store(place: Place) -> Iterator[EventStore]:
    with place.connect() as store:
        yield store


def given(topic: str) -> LessonGiven:
    return LessonGiven(course=CourseId("c1"), topic=topic)


def test_events_go_to_the_stream_of_their_rule_however_they_are_written(store: EventStore) -> None:
    store.append([given("a"), LessonMissed(course=CourseId("c1"), student=StudentId("s1"))])
    store.execute(give, Lessons("c1"), "b")
    with store.boundary(Lessons("c1")) as boundary:
        boundary.append(given("c"), given("d").with_tags("vip"))
    assert [event.position for event in store.read(Query.stream("course:c1"))] == [1, 3, 4, 5]
    assert [event.type for event in store.read(Query.stream("student:s1"))] == ["LessonMissed"]
    assert store.count(Query.stream("course:c2")) == 0
    assert store.execute(give, Lessons("c2"), "a").count == 1  # a stream begins with its first event
    assert store.count(Query.stream("course:c2")) == 1


def test_a_stream_that_is_given_is_the_one(store: EventStore) -> None:
    store.append(given("a").to_event(stream="archive"))
    store.append(given("b"), stream="course:c1")
    with pytest.raises(InvalidInput, match="is in stream 'course:c1', the append says 'other'"):
        store.append(given("c"), stream="other")
    assert [event.stream for event in store.read()] == ["archive", "course:c1"]


def test_an_id_means_its_tag_as_a_stream_and_as_a_subject_too(store: EventStore) -> None:
    store.append(given("a"), stream=CourseId("c1"))
    store.append(Event("Noted", {}, subject=CourseId("c1")), stream=CourseId("c1"))
    assert store.count(Query.stream(CourseId("c1"))) == 2
    assert store.count(Query.subject(CourseId("c1"))) == 1
    assert [event.subject for event in store.read(Query.stream("course:c1"))] == [None, "course:c1"]


def test_a_stream_can_be_a_condition(store: EventStore) -> None:
    read = store.read(Query.stream("course:c1"))
    store.execute(give, Lessons("c1"), "a")
    with pytest.raises(AppendConditionFailed):
        store.append(given("b"), AppendCondition(read.query, read.head))
    assert store.head() == 1


def test_events_without_a_rule_have_no_stream(store: EventStore) -> None:
    with store.boundary(Course("c1")) as boundary:
        boundary.append(given("a").to_event(stream="s"))
    assert [event.stream for event in store.read()] == ["s"]
    assert LessonGiven.event_stream == "course"
    assert DomainEvent.event_stream is None


def test_async_stores_follow_the_rule(place: Place) -> None:
    async def main() -> None:
        async with place.connect_async() as store:
            await store.execute(give, Lessons("c1"), "a")
            async with store.boundary(Lessons("c1")) as boundary:
                boundary.append(given("b"))
            assert await store.count(Query.stream("course:c1")) == 2

    asyncio.run(main())
