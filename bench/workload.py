"""The course workload: a history of events, and the decisions that clients take on top of it.

The values here belong to no store; every adapter turns them into its own inside the measured time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import cycle
from typing import NamedTuple

DATA_BYTES = 200
PREPARED = 16_384  # decisions of all clients together, fewer if there is little to decide about
HOT_TAG, WARM_TAG, RARE_TAG = "campus:main", "campus:hill", "campus:island"
HOT_EVENTS = 100_000  # a hundredth of them are warm, a ten thousandth rare

COURSE_TYPES = ("CourseDefined", "CourseCapacityChanged", "StudentSubscribed")
STUDENT_TYPES = ("StudentRegistered", "StudentSubscribed")


class NewEvent(NamedTuple):
    """An event to be written."""

    type: str
    data: bytes
    tags: tuple[str, ...]


class Item(NamedTuple):
    """One of these types (none: any) with all of these tags."""

    types: tuple[str, ...]
    tags: tuple[str, ...]


Query = tuple[Item, ...]


class Decision(NamedTuple):
    """What a client depends on, and what it writes if nothing of that changed."""

    course: int
    student: int
    query: Query
    event: NewEvent


@dataclass(frozen=True)
class Workload:
    """A history of `events` events, with as many courses and students as belong to it."""

    events: int

    @property
    def courses(self) -> int:
        return max(1000, self.events // 50)

    @property
    def students(self) -> int:
        return max(2000, self.events // 10)

    def history(self) -> Iterator[NewEvent]:
        """80 % subscriptions, 10 % about a course, 10 % about a student."""
        return (any_event(choose, self) for choose in [random.Random(1)] for _ in range(self.events))

    def campus_history(self) -> Iterator[NewEvent]:
        """The history with subscriptions spread over it that carry a hot tag, some a warm, a few a rare one."""
        choose, counts = random.Random(2), self.campus_events
        rest = max(counts[HOT_TAG] // 10, self.events - sum(counts.values()))
        kinds = bytearray(rest) + b"".join(
            bytes([kind]) * count for kind, count in enumerate(counts.values(), 1)
        )
        choose.shuffle(kinds)
        tags = ("", *counts)
        for kind in kinds:
            yield _campus_event(choose, self, tags[kind]) if kind else any_event(choose, self)

    @property
    def campus_events(self) -> dict[str, int]:
        """How many events there are with each of the tags of a campus."""
        hot = min(self.events, HOT_EVENTS)
        return {HOT_TAG: hot, WARM_TAG: max(1, hot // 100), RARE_TAG: max(1, hot // 10_000)}

    def decisions(self, client: int, clients: int) -> Iterator[Decision]:
        """Endless decisions of one client of many; no other one touches its courses and students.

        Made in advance and then repeated: to invent them is not the work of a store.
        """
        return cycle(_prepared(self, client, clients))

    def every_key(self, client: int, clients: int) -> list[Decision]:
        """Decisions of one client of many that touch each of its courses and students, few of them in a small log."""
        courses, students = self.courses // clients, self.students // clients
        return [
            _decision(client + clients * (number % courses), client + clients * (number % students))
            for number in range(min(max(courses, students), 2 * self.events // clients + 1))
        ]

    def hot(self) -> Workload:
        """As many courses and students as the smallest workload has: all of them are used again and again."""
        return Workload(min(self.events, 1_000))


@dataclass(frozen=True)
class Log(Workload):
    """A history with as many courses as we like; if there is one, no key can be hotter."""

    keys: int

    @property
    def courses(self) -> int:
        return self.keys

    @property
    def name(self) -> str:
        return f"{self.events:,} events, {self.keys:,} keys"


@lru_cache(256)
def _prepared(workload: Workload, client: int, clients: int) -> list[Decision]:
    choose, made = random.Random(client), []
    for _ in range(max(min(PREPARED, 10 * workload.events) // clients, 1)):
        course = client + clients * choose.randrange(workload.courses // clients)
        student = client + clients * choose.randrange(workload.students // clients)
        made.append(_decision(course, student))
    return made


def _decision(course: int, student: int) -> Decision:
    return Decision(course, student, decision_query(course, student), subscription(course, student))


def decision_query(course: int, student: int) -> Query:
    """What a subscription depends on: the course's events and the student's."""
    return Item(COURSE_TYPES, (f"course:{course}",)), Item(STUDENT_TYPES, (f"student:{student}",))


def subscription(course: int, student: int) -> NewEvent:
    """A student takes a course."""
    tags = (f"course:{course}", f"student:{student}")
    return NewEvent("StudentSubscribed", payload(course, student), tags)


def payload(course: int, student: int) -> bytes:
    """JSON of exactly `DATA_BYTES` bytes that does not compress well."""
    return f'{{"course":"{course}","student":"{student}","note":"{note(course, student)}"}}'.encode()


def note(course: int, student: int) -> str:
    """What fills the payload."""
    begin = (course * 31 + student * 17) % (len(_NOISE) - DATA_BYTES)
    length = DATA_BYTES - len(f'{{"course":"{course}","student":"{student}","note":""}}')
    return _NOISE[begin : begin + length]


def any_event(choose: random.Random, workload: Workload) -> NewEvent:
    """An event of the history."""
    course, student = choose.randrange(workload.courses), choose.randrange(workload.students)
    kind = choose.random()
    if kind < 0.8:
        return subscription(course, student)
    if kind < 0.9:
        kind_of_change = "CourseDefined" if kind < 0.85 else "CourseCapacityChanged"
        return NewEvent(kind_of_change, payload(course, student), (f"course:{course}",))
    return NewEvent("StudentRegistered", payload(course, student), (f"student:{student}",))


def _campus_event(choose: random.Random, workload: Workload, tag: str) -> NewEvent:
    student = choose.randrange(workload.students)
    return NewEvent("StudentSubscribed", payload(0, student), (tag, f"student:{student}"))


_NOISE = random.Random(0).randbytes(1 << 16).hex()
