"""The course decision as an application would write it: typed events, projections, a command."""

from __future__ import annotations

from collections.abc import Iterator

from strandline import DomainEvent, Projection, TagId, command, on


class CourseId(TagId): ...


class StudentId(TagId): ...


class CourseDefined(DomainEvent):
    course: CourseId
    note: str


class CourseCapacityChanged(DomainEvent):
    course: CourseId
    note: str


class StudentRegistered(DomainEvent):
    student: StudentId
    note: str


class StudentSubscribed(DomainEvent):
    course: CourseId
    student: StudentId
    note: str


class Course(Projection):
    id: CourseId
    is_defined: bool = False
    taken: int = 0

    @on
    def changed(self, event: CourseDefined | CourseCapacityChanged) -> None:
        self.is_defined = True

    @on
    def subscribed(self, event: StudentSubscribed) -> None:
        self.taken += 1


class Student(Projection):
    id: StudentId
    is_registered: bool = False
    courses: int = 0

    @on
    def registered(self, event: StudentRegistered) -> None:
        self.is_registered = True

    @on
    def subscribed(self, event: StudentSubscribed) -> None:
        self.courses += 1


@command
def subscribe(course: Course, student: Student, note: str) -> Iterator[StudentSubscribed]:
    yield StudentSubscribed(course=course.id, student=student.id, note=note)
