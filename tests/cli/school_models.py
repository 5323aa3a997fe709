"""A read model of the school that the tests write: a module as users have one."""

from strandline import DomainEvent, Projection, TagId, on
from strandline.follow import ReadModel


class CourseId(TagId): ...


class CourseDefined(DomainEvent):
    capacity: int


class StudentSubscribed(DomainEvent):
    student: str


class Course(Projection):
    id: CourseId
    capacity: int = 0
    students: list[str] = []

    @on
    def defined(self, event: CourseDefined) -> None:
        self.capacity = event.capacity

    @on
    def subscribed(self, event: StudentSubscribed) -> None:
        self.students.append(event.student)


courses = ReadModel(Course, table="courses")
