"""Projections of every shape, which executors import. The order of events matters to all of them."""

from __future__ import annotations

import hashlib
import os
import random
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from itertools import product
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from strandline import DomainEvent, Event, EventStore, Projection, Query, SequencedEvent, TagId, on, upcast
from strandline.domain.shape import shape_of


class CourseId(TagId): ...


class StudentId(TagId): ...


class Defined(DomainEvent, version=2):
    course: CourseId
    capacity: int

    @staticmethod
    @upcast(1)
    def seats(data: dict[str, Any]) -> dict[str, Any]:
        return {"course": data["course"], "capacity": data["seats"]}


class Joined(DomainEvent):
    courses: list[CourseId]
    student: StudentId


class Course(Projection):
    course: CourseId
    capacity: int = 0
    students: list[StudentId] = []
    chain: str = ""

    @on
    def defined(self, event: Defined) -> None:
        self.capacity = event.capacity
        self.chain = chained(self.chain, f"defined {event.capacity}")

    @on
    def joined(self, event: Joined) -> None:
        self.students.append(event.student)
        self.chain = chained(self.chain, f"joined {event.student} {len(event.courses)}")


class Seat(Projection):
    """Of two keys, and it looks at what was recorded."""

    course: CourseId
    student: StudentId
    times: int = 0
    chain: str = ""

    @on
    def joined(self, event: Joined, recorded: SequencedEvent) -> None:
        self.times += 1
        seen = (
            recorded.position,
            recorded.tags,
            recorded.id,
            dict(recorded.metadata),
            recorded.stream,
            recorded.subject,
            recorded.recorded_at,
        )
        self.chain = chained(self.chain, repr(seen))


class Newest(Projection, last_only=True):
    student: StudentId
    courses: list[CourseId] = []
    seen: int = 0

    @on
    def joined(self, event: Joined) -> None:
        self.courses = event.courses
        self.seen += 1


class Total(Projection):
    """Without a key."""

    events: int = 0
    chain: str = ""

    @on
    def any(self, event: Defined | Joined) -> None:
        self.events += 1
        self.chain = chained(self.chain, event.event_type)


class Fragile(Projection):
    """Kills the process that folds it if there is a file, or fails."""

    course: CourseId
    taken: int = 0

    @on
    def joined(self, event: Joined) -> None:
        self.taken += 1
        name, _, file = event.student.partition(" ")
        if name == "killer" and os.path.exists(file):
            os.remove(file)  # once
            os._exit(9)
        if name == "breaker":
            raise ZeroDivisionError("it broke")


class Unkept(Projection):
    """Its state has no JSON form: ids are no plain texts."""

    course: CourseId
    students: list[str] = []

    @on
    def joined(self, event: Joined) -> None:
        self.students.append(event.student)


class Level(Enum):
    LOW = 1
    HIGH = 2


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Point(NamedTuple):
    x: int
    y: float


@dataclass
class Room:
    name: str
    corner: Point
    since: datetime | None = None


class Part(msgspec.Struct):
    course: CourseId
    rooms: list[Room]


class Everything(Projection):
    """A state of every type that Spark has."""

    course: CourseId
    number: int = 0
    share: float = 0.0
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
    chosen: set[int] = set()
    pair: tuple[int, str] = (0, "")
    counts: dict[str, int] = {}
    rooms: dict[str, Room] = {}
    part: Part | None = None

    @on
    def defined(self, event: Defined) -> None:
        if event.capacity:
            vars(self).update(FULL)


FULL: dict[str, Any] = {
    "number": -(1 << 63),
    "share": 0.1,
    "is_open": True,
    "title": "Äpfel 🍏",
    "other": CourseId("c2"),
    "moment": datetime(2026, 2, 3, 4, 5, 6, 789, tzinfo=UTC),
    "price": Decimal("12.340"),
    "id": UUID("0197f6f0-0000-7000-8000-000000000001"),
    "raw": b"\0\xff",
    "level": Level.HIGH,
    "color": Color.BLUE,
    "names": ["a", "b"],
    "chosen": {10, 9},
    "pair": (1, "one"),
    "counts": {"a": 1},
    "rooms": {"r": Room("big", Point(1, 2.5), datetime(2026, 1, 1, tzinfo=UTC))},
    "part": Part(course=CourseId("c3"), rooms=[Room("small", Point(0, 0.0))]),
}


class Mixed(Projection):
    course: CourseId
    value: int | str = 0

    @on
    def defined(self, event: Defined) -> None: ...


class Moment(Projection):
    course: CourseId
    moment: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    @on
    def defined(self, event: Defined) -> None:
        self.moment = datetime(2026, 1, 1)  # noqa: DTZ001  (that is what is wrong with it)


def chained(chain: str, text: str) -> str:
    """A hash of everything so far: any other order gives another one."""
    return hashlib.sha256(f"{chain} {text}".encode()).hexdigest()[:16]


def define(course: str, capacity: int = 3) -> Defined:
    return Defined(course=CourseId(course), capacity=capacity)


def join(student: str, *courses: str) -> Joined:
    return Joined(courses=[CourseId(course) for course in courses], student=StudentId(student))


def old_define(course: str, seats: int) -> Event:
    """An event of the first version."""
    return Event("Defined", {"course": course, "seats": seats}, tags=[f"course:{course}"])


def write_history(store: EventStore, seed: int, appends: int = 60) -> None:
    """A random history: a hot course, several courses at once, old versions, events for nobody, retags."""
    rng = random.Random(seed)
    courses = [f"c{number}" for number in range(6)] + ["ä ö", "🍏", "a:b"]
    for number in range(appends):
        some = [*rng.sample(courses, rng.randrange(4)), *(["hot"] * (rng.random() < 0.8))]
        student = f"s{rng.randrange(5)}"
        recorded = {
            "stream": f"st{number % 3}",
            "subject": student,
            "metadata": {"by": student, "n": str(number)},
        }
        batch: list[Any] = [join(student, *some).to_event(**recorded), join(f"s{rng.randrange(9)}", "hot")]
        batch += rng.choice(
            [[define(rng.choice(courses), number)], [old_define("c1", number)], [Event("Other", {})]]
        )
        store.append(batch)
        if rng.random() < 0.15:
            moved = rng.choice([event.position for event in store.read(Query.types("Joined"))])
            store.retag(moved, replace={rng.choice(["course", "student"]): rng.sample(["c1", "c2", "s1"], 2)})


def expected(
    store: EventStore, projection: Any, until: int | None = None
) -> dict[tuple[str, ...], tuple[Any, int]]:
    """The fold in process: by key, the state and the position of its last event."""
    kinds = [kind for _, kind in shape_of(projection).key]
    tags = {tag for event in store.read(Query.user(), until=until) for tag in event.tags}
    values = [[tag.partition(":")[2] for tag in tags if tag.startswith(f"{kind.prefix}:")] for kind in kinds]
    found = {}
    for key in product(*values):
        state = projection(*key)
        listed = list(store.read(state.query(), until=until))
        for event in listed[-1:] if projection is Newest else listed:
            state.apply(event)
        if listed:
            found[key] = (state, listed[-1].position)
    return found


PROJECTIONS: list[Any] = [Course, Seat, Newest, Total]
