"""The school of the tests: courses with seats, students who take them."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from datetime import datetime

from strandline import NOW, DomainEvent, Projection, SequencedEvent, TagId, command, on


class CourseId(TagId): ...


class StudentId(TagId): ...


class CourseDefined(DomainEvent):
    course: CourseId
    capacity: int


class CapacityChanged(DomainEvent):
    course: CourseId
    capacity: int


class StudentSubscribed(DomainEvent):
    student: StudentId
    course: CourseId


class InvoiceWritten(DomainEvent):
    number: int


class CourseFull(Exception): ...


class Course(Projection):
    id: CourseId
    exists: bool = False
    capacity: int = 0
    taken: int = 0
    students: list[str] = []

    @on
    def changed(self, event: CourseDefined | CapacityChanged) -> None:
        self.exists, self.capacity = True, event.capacity

    @on
    def subscribed(self, event: StudentSubscribed, recorded: SequencedEvent) -> None:
        self.taken += 1
        self.students.append(f"{event.student}@{recorded.position}")


class Student(Projection):
    id: StudentId
    courses: int = 0

    @on(StudentSubscribed)
    def subscribed(self, event: StudentSubscribed) -> None:
        self.courses += 1


class Enrollment(Projection):
    """One student in one course: two key fields, joined by AND."""

    student: StudentId
    course: CourseId
    exists: bool = False

    @on
    def subscribed(self, event: StudentSubscribed) -> None:
        self.exists = True


class Seats(Projection):
    """Seats only: a change of the capacity does not spoil a decision."""

    id: CourseId
    capacity: int = 0
    taken: int = 0

    @on(conflicts=False)
    def changed(self, event: CourseDefined | CapacityChanged) -> None:
        self.capacity = event.capacity

    @on
    def subscribed(self, event: StudentSubscribed) -> None:
        self.taken += 1


class Invoices(Projection, last_only=True):
    last: int = 0

    @on
    def written(self, event: InvoiceWritten) -> None:
        self.last = event.number


@command
def define(course: Course, capacity: int) -> Iterator[CourseDefined]:
    if not course.exists:
        yield CourseDefined(course=course.id, capacity=capacity)


@command
def enroll(student: Student, course: Course) -> Iterator[StudentSubscribed]:
    if course.taken >= course.capacity:
        raise CourseFull(course.id)
    yield StudentSubscribed(student=student.id, course=course.id)


@command
def enroll_in_all(student: Student, courses: list[Course]) -> Generator[StudentSubscribed, None, int]:
    free = [course for course in courses if course.taken < course.capacity]
    for course in free:
        yield StudentSubscribed(student=student.id, course=course.id)
    return len(free)


@command
def write_invoice(invoices: Invoices) -> InvoiceWritten:
    return InvoiceWritten(number=invoices.last + 1)


@command
def when(course: Course, now: datetime = NOW) -> Generator[CapacityChanged, None, datetime]:
    yield CapacityChanged(course=course.id, capacity=course.capacity + 1)
    return now


@command(commutative=True, guard=[CapacityChanged])
def join(course: Course, student: str) -> Iterator[StudentSubscribed]:
    yield StudentSubscribed(student=StudentId(student), course=course.id)
