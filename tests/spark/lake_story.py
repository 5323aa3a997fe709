"""What happens to a log between two exports: everything that makes the second one write something anew."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from academy import CourseDefined, CourseId, StudentId, StudentSubscribed

from places import Place
from strandline import Event, EventStore, Query

FIRST = {"events": ["academy:CourseDefined"], "projections": ["academy:Course"]}
SECOND = {"events": ["school_later"]}


class Days:
    """A clock that moves on by some hours with each append."""

    def __init__(self, start: datetime = datetime(2025, 1, 1, tzinfo=UTC)) -> None:
        self.now = start

    def __call__(self) -> datetime:
        self.now += timedelta(hours=9)
        return self.now


def begin(place: Place) -> None:
    """Courses, students, and a payment."""
    with place.connect(clock=Days()) as store:
        add_courses(store, 0, 3)
        store.append(
            Event("Paid", {"amount": 1, "by": {"name": "ada"}, "notes": ["a", "b"]}, tags=["student:s1"])
        )


def go_on(place: Place) -> None:
    """More courses, another type, payments that are not like the first one, and two retags."""
    with place.connect(clock=Days(datetime(2025, 2, 1, tzinfo=UTC))) as store:
        add_courses(store, 3, 5)
        store.append(
            [
                Event("Paid", {"amount": 1.5, "currency": "EUR"}),
                Event("Paid", b"\xff\x00"),
                Event("Paid", [1]),
            ]
        )
        store.append(Event("odd/type", {"id": 1, "ID": 2, "_rest": 3, "a b": 4, "": 5, "none": None}))
        store.retag(Query.tag("student:s1"), replace={"student": ["s9"]})
        store.retag([1], add=["vip"])


def add_courses(store: EventStore, start: int, end: int) -> None:
    for number in range(start, end):
        course = CourseId(f"c{number}")
        store.append(CourseDefined(course=course, capacity=number))
        events = [StudentSubscribed(student=StudentId(f"s{n}"), course=course) for n in range(3)]
        store.append([event.to_event(metadata={"by": "ada"}, subject="x") for event in events])
