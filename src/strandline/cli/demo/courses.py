"""Course subscriptions: a course has seats, and a student takes at most three courses.

Both rules belong to one decision, and neither to one aggregate. With a dynamic consistency boundary
the decision names what it depends on, and is refused only if that changed meanwhile: here it is the
signature of `subscribe` that names it.
"""

from __future__ import annotations

from collections.abc import Iterator

from strandline import DomainEvent, Projection, SequencedEvent, TagId, command, on

MOST_COURSES = 3


class Refused(Exception):
    """The rules say no; the text says why."""


class CourseId(TagId): ...


class StudentId(TagId): ...


class CourseDefined(DomainEvent):
    course: CourseId
    seats: int


class StudentSubscribed(DomainEvent):
    student: StudentId
    course: CourseId
    seat: int


class Course(Projection):
    """What a subscription has to know of a course."""

    id: CourseId
    seats: int = 0
    taken: int = 0

    @on
    def defined(self, event: CourseDefined) -> None:
        """It has this many seats."""
        self.seats = event.seats

    @on
    def subscribed(self, event: StudentSubscribed) -> None:
        """One of them is taken."""
        self.taken += 1


class Student(Projection):
    """The courses of a student."""

    id: StudentId
    courses: list[CourseId] = []

    @on
    def subscribed(self, event: StudentSubscribed) -> None:
        """One more."""
        self.courses.append(event.course)


@command
def define(course: Course, seats: int) -> Iterator[CourseDefined]:
    """Offer a course, unless it is offered already."""
    if course.seats:
        raise Refused("defined already")
    yield CourseDefined(course=course.id, seats=seats)


@command
def subscribe(student: Student, course: Course) -> Iterator[StudentSubscribed]:
    """Give the student the next free seat."""
    if not course.seats:
        raise Refused("no such course")
    if course.id in student.courses:
        raise Refused("subscribed already")
    if course.taken >= course.seats:
        raise Refused("course full")
    if len(student.courses) >= MOST_COURSES:
        raise Refused("too many courses")
    yield StudentSubscribed(student=student.id, course=course.id, seat=course.taken + 1)


class Sales(Projection):
    """A course as the log tells it, for whoever judges the race."""

    id: CourseId
    seats: int = 0
    sold: list[int] = []
    """The seat of each subscription, in the order of the log."""

    @on
    def defined(self, event: CourseDefined) -> None:
        """It has this many seats."""
        self.seats = event.seats

    @on
    def subscribed(self, event: StudentSubscribed) -> None:
        """A seat was sold."""
        self.sold.append(event.seat)

    @property
    def sold_twice(self) -> int:
        """Subscriptions that took a seat which was taken, or which the course does not have."""
        return len(self.sold) - len({seat for seat in self.sold if 1 <= seat <= self.seats})


def month(event: SequencedEvent) -> list[str]:
    """A rule for `strandline spark retag`: tags that let events be found by the month they were recorded in."""
    return [f"month:{event.recorded_at:%Y-%m}"]
