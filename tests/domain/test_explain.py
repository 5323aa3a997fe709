"""`store.explain` says what a command reads and what it is checked against, and executes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from enrolment import (
    Course,
    CourseDefined,
    CourseId,
    Enrollment,
    Invoices,
    Seats,
    Student,
    StudentId,
    StudentSubscribed,
    enroll,
    join,
    write_invoice,
)

from places import Place
from strandline import EventStore, InvalidInput, Query, QueryItem, command


@pytest.fixture
def store(place: Place) -> Iterator[EventStore]:
    with place.connect() as store:
        store.append(CourseDefined(course=CourseId("c1"), capacity=1))
        store.append(StudentSubscribed(student=StudentId("s1"), course=CourseId("c1")))
        yield store


def test_it_prints_what_is_read_and_what_refuses(
    store: EventStore, capsys: pytest.CaptureFixture[str]
) -> None:
    explained = store.explain(enroll, Student("s1"), Course("c1"))
    assert capsys.readouterr().out.splitlines() == [
        "enrolment.enroll",
        "reads",
        "  projection     types                                              tags        events now",
        "  Student('s1')  StudentSubscribed                                  student:s1  1",
        "  Course('c1')   CapacityChanged, CourseDefined, StudentSubscribed  course:c1   2",
        "is refused by newer events with",
        "  types                                              tags",
        "  StudentSubscribed                                  student:s1",
        "  CapacityChanged, CourseDefined, StudentSubscribed  course:c1",
    ]
    assert explained.reads == explained.condition
    assert store.head() == 2
    store_execute = store.execute(write_invoice, Invoices())
    assert store_execute.position == 3


def test_it_tells_of_narrower_conditions(store: EventStore, capsys: pytest.CaptureFixture[str]) -> None:
    @command
    def take_seat(seats: Seats, enrollment: Enrollment) -> Iterator[StudentSubscribed]:
        yield from ()

    explained = store.explain(take_seat, Seats("c1"), Enrollment("s1", "c1"))
    subscribed = QueryItem(types=[StudentSubscribed], tags=[CourseId("c1")])
    assert explained.condition == Query.of(
        subscribed, QueryItem(types=[StudentSubscribed], tags=[CourseId("c1"), StudentId("s1")])
    )
    guarded = store.explain(join, Course("c1"), "s1")
    assert guarded.condition == Query.of(QueryItem(types=["CapacityChanged"], tags=["course:c1"]))
    assert store.explain(write_invoice, Invoices()).reads == Query.types("InvoiceWritten")

    @command(commutative=True)
    def note(course: Course) -> None: ...

    assert store.explain(note, Course("c1")).condition is None
    assert "is never refused" in capsys.readouterr().out


def test_bad_arguments_are_refused(store: EventStore) -> None:
    with pytest.raises(InvalidInput, match="missing a required argument"):
        store.explain(enroll, Student("s1"))  # type: ignore[call-arg]


def test_async_stores_explain_too(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        async with place.connect_async() as store:
            explained = await store.explain(enroll, Student("s1"), Course("c1"))
            assert [count for _, _, count in explained.counts] == [0, 0]

    asyncio.run(main())
    assert "Course('c1')" in capsys.readouterr().out
