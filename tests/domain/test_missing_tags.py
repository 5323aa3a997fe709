"""An event that carries none of its boundary's tags: no such decision would see it."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from enrolment import Course, CourseId, Invoices, InvoiceWritten, Student, StudentId, StudentSubscribed

from places import Place
from strandline import DomainEvent, Event, EventStore, InvalidEvent, MissingTags, Projection, command, on
from strandline.testing import given


class Noted(DomainEvent):
    text: str


@command
def note(course: Course, student: Student) -> Iterator[Noted]:
    yield Noted(text="n")


@command
def bill(course: Course, invoices: Invoices) -> Iterator[InvoiceWritten]:
    yield InvoiceWritten(number=invoices.last + 1)


@command
def bill_anyone(invoices: Invoices) -> Iterator[DomainEvent]:
    yield InvoiceWritten(number=invoices.last + 1)
    yield Noted(text="n")


def here(caught: pytest.WarningsRecorder) -> None:
    """The only warning was about a line of this file."""
    (warning,) = caught
    assert warning.filename == __file__
    assert isinstance(warning.message, MissingTags)
    assert isinstance(warning.message, UserWarning)
    text = str(warning.message)
    assert "Noted carries none of the tags of its boundary (course:c1" in text
    assert "with_tags" in text


def write_by_hand(store: EventStore) -> None:
    with store.boundary(Course("c1")) as boundary:
        boundary.append(Noted(text="n"))


def test_such_an_event_is_written_with_a_warning(place: Place) -> None:
    with place.connect() as store:
        with pytest.warns(MissingTags, match=r"\(course:c1, student:s1\)") as caught:
            store.execute(note, Course("c1"), Student("s1"))
        here(caught)
        with pytest.warns(MissingTags) as caught:
            write_by_hand(store)
        here(caught)
        assert store.head() == 2


def test_a_strict_store_refuses_it(place: Place) -> None:
    with place.connect(strict_tags=True) as store:
        with pytest.raises(InvalidEvent, match="Noted carries none of the tags") as refused:
            store.execute(note, Course("c1"), Student("s1"))
        assert "with_tags" in refused.value.hint
        with pytest.raises(InvalidEvent, match="Noted carries none of the tags"):
            write_by_hand(store)
        assert store.head() == 0


def test_a_story_warns_or_refuses_as_a_store_does() -> None:
    with pytest.warns(MissingTags) as caught:
        given().when(note, Course("c1"), Student("s1")).then(Noted(text="n"))
    here(caught)
    strict = given(strict_tags=True)
    late = strict.given(InvoiceWritten(number=1)).at(datetime(2026, 2, 1, tzinfo=UTC))
    billed = late.when(bill_anyone, Invoices()).then(InvoiceWritten(number=2), Noted(text="n"))
    for story in (strict, late, billed, billed.then(*billed.events)):
        refused = story.when(note, Course("c1"), Student("s1"))
        refused.then_raises(InvalidEvent, match="Noted carries none of the tags").when(
            note, Course("c1"), Student("s1")
        ).then_raises(InvalidEvent)
        with pytest.raises(AssertionError, match="raised InvalidEvent: Noted carries none of the tags"):
            refused.then(Noted(text="n"))


def test_async_stores_warn_and_refuse_too(place: Place) -> None:
    async def write(store: Any) -> None:
        async with store.boundary(Course("c1")) as boundary:
            boundary.append(Noted(text="n"))

    async def main() -> None:
        async with place.connect_async() as store:
            with pytest.warns(MissingTags) as caught:
                await store.execute(note, Course("c1"), Student("s1"))
            here(caught)
            with pytest.warns(MissingTags) as caught:
                await write(store)
            here(caught)

    async def strict() -> None:
        async with place.connect_async(strict_tags=True) as store:
            head = await store.head()
            with pytest.raises(InvalidEvent):
                await store.execute(note, Course("c1"), Student("s1"))
            with pytest.raises(InvalidEvent):
                await write(store)
            assert await store.head() == head

    asyncio.run(main())
    asyncio.run(strict())


def test_a_warning_that_is_made_an_error_writes_nothing(place: Place) -> None:
    with place.connect() as store, warnings.catch_warnings():
        warnings.simplefilter("error", MissingTags)
        with pytest.raises(MissingTags):
            store.execute(note, Course("c1"), Student("s1"))
        assert store.head() == 0


def test_one_of_the_tags_or_a_type_that_is_asked_for_is_enough(place: Place) -> None:
    with place.connect(strict_tags=True) as store:
        with store.boundary(Course("c1"), Student("s1")) as boundary:
            boundary.append(
                StudentSubscribed(student=StudentId("s1"), course=CourseId("c2")),
                Noted(text="n").with_tags(CourseId("c1")),
                Event("Free", {}, tags=["course:c1"]),
            )
        store.execute(bill, Course("c1"), Invoices())
        store.execute(bill_anyone, Invoices())
        store.append(Noted(text="n"))
        assert store.head() == 7


class Untagged(DomainEvent):
    course: str
    student: StudentId


def test_a_handler_that_no_event_reaches_is_told_where_the_class_is_made() -> None:
    with pytest.warns(MissingTags) as told:

        class Lost(Projection):
            id: CourseId
            taken: int = 0

            @on
            def subscribed(self, event: Untagged) -> None:
                self.taken += 1

    assert [str(each.message) for each in told] == [
        (
            "Lost.subscribed is never called: Untagged has no field of the type CourseId, so it has no tag of a Lost;"
            " write id: CourseId in Untagged, or leave the handler out"
        )
    ]
    assert told[0].filename == __file__
    with pytest.warns(MissingTags, match="Lost.subscribed is never called") as asked:

        @command
        def take(seats: Lost) -> Iterator[Untagged]:
            yield Untagged(course=seats.id, student=StudentId("s1"))

    assert [each.category for each in asked] == [MissingTags]


def test_a_handler_of_events_that_add_their_tags_is_right(recwarn: pytest.WarningsRecorder) -> None:
    class Adding(Untagged, type="Adding"):
        def to_event(self, **options: Any) -> Event:
            return super().to_event(**options).with_tags(f"course:{self.course}")

    class Found(Projection):
        id: CourseId

        @on
        def subscribed(self, event: Adding) -> None: ...

    class Twice(Projection):
        student: StudentId

        @on
        def subscribed(self, event: Untagged) -> None: ...

    assert not recwarn.list
