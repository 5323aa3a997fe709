"""Course subscriptions: a course has seats, and a student takes at most three courses.

Both rules belong to one decision, and neither to one aggregate. With a dynamic consistency boundary
the decision names what it depends on, a query, and is refused only if that changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from strandline import (
    AppendCondition,
    AppendConditionFailed,
    Event,
    EventStore,
    Query,
    QueryItem,
    SequencedEvent,
)

MOST_COURSES = 3


class Refused(Exception):
    """The rules say no; the text says why."""


def define(store: EventStore, course: str, seats: int) -> None:
    """Offer a course, unless one of that name is offered already."""
    tag = f"course:{course}"
    same_course = Query.of(QueryItem(types=["CourseDefined"], tags=[tag]))
    event = Event("CourseDefined", {"course": course, "seats": seats}, tags=[tag])
    store.append(event, AppendCondition(fail_if_events_match=same_course))


def boundary(student: str, course: str) -> Query:
    """All that a subscription depends on: the course with its seats, and the student's courses."""
    return Query.of(
        QueryItem(types=["CourseDefined", "StudentSubscribed"], tags=[f"course:{course}"]),
        QueryItem(types=["StudentSubscribed"], tags=[f"student:{student}"]),
    )


def decide(events: Iterable[SequencedEvent], student: str, course: str) -> Event:
    """The event that gives the student the next free seat, or `Refused`."""
    seats, taken, courses = 0, 0, set()
    for event in events:
        data = event.json()
        if event.type == "CourseDefined":
            seats = data["seats"]
        if event.type == "StudentSubscribed":
            taken += data["course"] == course
            courses |= {data["course"]} if data["student"] == student else set()
    _check(seats, taken, courses, course)
    return Event(
        "StudentSubscribed",
        {"student": student, "course": course, "seat": taken + 1},
        tags=[f"student:{student}", f"course:{course}"],
    )


def subscribe(
    store: EventStore, student: str, course: str, on_conflict: Callable[[], object] = lambda: None
) -> int:
    """Read, decide, append; if somebody was faster, decide again. Returns the event's position."""
    while True:
        read = store.read(boundary(student, course))
        event = decide(read, student, course)
        try:
            return store.append(event, read.condition).position
        except AppendConditionFailed:
            on_conflict()


def _check(seats: int, taken: int, courses: set[str], course: str) -> None:
    if not seats:
        raise Refused("no such course")
    if course in courses:
        raise Refused("subscribed already")
    if taken >= seats:
        raise Refused("course full")
    if len(courses) >= MOST_COURSES:
        raise Refused("too many courses")
