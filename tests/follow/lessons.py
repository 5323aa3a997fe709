"""A projection with two neighbours, for the tests of read models."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from following import in_thread
from places import Place
from strandline import DomainEvent, EventStore, Projection, SequencedEvent, TagId, on
from strandline.follow import ReadModel


class CourseId(TagId):
    pass


class StudentId(TagId):
    pass


class Defined(DomainEvent):
    course: CourseId
    capacity: int


class Joined(DomainEvent):
    courses: list[CourseId]
    student: StudentId


class Course(Projection):
    course: CourseId
    capacity: int = 0
    taken: int = 0
    students: list[StudentId] = []

    @on
    def defined(self, event: Defined) -> None:
        self.capacity = event.capacity

    @on
    def joined(self, event: Joined) -> None:
        self.taken += 1
        self.students.append(event.student)


class Seat(Projection):
    """Of two keys."""

    course: CourseId
    student: StudentId
    times: int = 0
    tags: tuple[str, ...] = ()

    @on
    def joined(self, event: Joined, recorded: SequencedEvent) -> None:
        self.times += 1
        self.tags = recorded.tags


class Newest(Projection, last_only=True):
    course: CourseId
    what: str = ""
    seen: int = 0

    @on
    def any(self, event: Defined | Joined) -> None:
        self.what = event.event_type
        self.seen += 1


class Level(Enum):
    LOW = 1
    HIGH = 2


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Filled(DomainEvent):
    course: CourseId
    number: int


class Everything(Projection):
    """A state of every type; the tests say what it is."""

    course: CourseId
    number: int = 0
    share: float = 0
    is_open: bool = False
    title: str = ""
    other: CourseId | None = None
    moment: datetime | None = None
    price: Decimal = Decimal(0)
    id: UUID | None = None
    raw: bytes = b""
    level: Level = Level.LOW
    color: Color | None = None
    names: list[str] = []
    counts: dict[str, int] = {}
    mixed: int | str = 0

    @on
    def filled(self, event: Filled) -> None:
        vars(self).update(STATES[event.number])


STATES: list[dict[str, Any]] = []


def define(course: str, capacity: int = 3) -> Defined:
    return Defined(course=CourseId(course), capacity=capacity)


def join(student: str, *courses: str) -> Joined:
    return Joined(courses=[CourseId(course) for course in courses], student=StudentId(student))


def table_in(place: Place, name: str = "courses") -> str:
    """A name that no other log of the database uses."""
    return f"{place.log}_{name}" if place.is_in_database else name


def running(model: ReadModel[Any], store: EventStore) -> AbstractContextManager[list[Any]]:
    """The model runs in a thread."""
    model.use(store)
    return in_thread(lambda: model.run(store), model.stop)


def other_version(**options: Any) -> type[Projection]:
    """A projection that has the name of Course, and another shape."""

    class Course(Projection, **options):
        course: CourseId
        capacity: int = 0
        waiting: int = 0

        @on
        def defined(self, event: Defined) -> None:
            self.capacity = event.capacity
            self.waiting = -1

    return Course
