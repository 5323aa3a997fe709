"""An academy: what the tests of the jobs fold. A module of its own, because executors import it."""

from __future__ import annotations

from datetime import datetime

from strandline import DomainEvent, Projection, SequencedEvent, TagId, on


class CourseId(TagId): ...


class StudentId(TagId): ...


class CourseDefined(DomainEvent):
    course: CourseId
    capacity: int


class StudentSubscribed(DomainEvent):
    student: StudentId
    course: CourseId


class Course(Projection):
    id: CourseId
    exists: bool = False
    capacity: int = 0
    taken: int = 0

    @on
    def defined(self, event: CourseDefined) -> None:
        self.exists, self.capacity = True, event.capacity

    @on
    def subscribed(self, event: StudentSubscribed) -> None:
        self.taken += 1


class Beginning(Projection):
    """When the courses began, and so a column with a time and one with times inside."""

    id: CourseId
    at: datetime | None = None
    all: list[datetime] = []

    @on
    def defined(self, event: CourseDefined, of: SequencedEvent) -> None:
        self.at = of.recorded_at
        self.all.append(of.recorded_at)


class Student(Projection):
    id: StudentId
    courses: list[CourseId] = []

    @on
    def subscribed(self, event: StudentSubscribed) -> None:
        self.courses.append(event.course)


def more_tags(event: SequencedEvent) -> list[str]:
    """A rule for retags: what a course is about."""
    return ["topic:physics"] if event.type == "CourseDefined" else []
