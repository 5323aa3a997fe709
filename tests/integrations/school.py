"""A DCB application as users of `eventsourcing` write it: students join courses while there are seats.

As a program it joins students to courses until all are full: `python school.py BUYER COURSES STUDENTS`.
It begins when it gets a line, and prints who it was told has a seat as JSON.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Iterator

from eventsourcing.dcb.application import DCBApplication
from eventsourcing.dcb.domain import Selector, Slice
from eventsourcing.dcb.msgpack import Decision
from eventsourcing.domain import event
from eventsourcing.persistence import IntegrityError


class CourseOpened(Decision):
    course: str
    seats: int


class StudentJoined(Decision):
    course: str
    student: str


class CourseFull(Exception):
    pass


class Opening(Slice[Decision]):
    def __init__(self, course: str, seats: int) -> None:
        self.course = course
        self.seats = seats

    def consistency_boundary(self) -> Selector:
        return Selector(types=[CourseOpened], tags=[f"course:{self.course}"])

    def execute(self) -> None:
        self.trigger_event(CourseOpened, tags=[f"course:{self.course}"], course=self.course, seats=self.seats)


class Joining(Slice[Decision]):
    def __init__(self, student: str, course: str) -> None:
        self.student = student
        self.course = course
        self.free = 0

    def consistency_boundary(self) -> Selector:
        return Selector(types=[CourseOpened, StudentJoined], tags=[f"course:{self.course}"])

    @event(CourseOpened)
    def _(self, seats: int) -> None:
        self.free += seats

    @event(StudentJoined)
    def _(self) -> None:
        self.free -= 1

    def execute(self) -> None:
        if self.free < 1:
            raise CourseFull
        tags = [f"student:{self.student}", f"course:{self.course}"]
        self.trigger_event(StudentJoined, tags=tags, course=self.course, student=self.student)


class School(DCBApplication):
    def open(self, course: str, seats: int) -> None:
        self.do(Opening(course, seats))

    def join(self, student: str, course: str) -> None:
        self.do(Joining(student, course))

    def joined(self) -> Iterator[tuple[str, str]]:
        for tagged in self.events.read(Selector(types=[StudentJoined])):
            if isinstance(tagged.decision, StudentJoined):
                yield tagged.decision.student, tagged.decision.course

    def sold(self) -> Counter[str]:
        return Counter(course for _, course in self.joined())


def join_all(school: School, buyer: str, courses: int, students: int) -> dict[str, list[list[str]]]:
    """Try each student in each course, in some order, until there is an answer."""
    wishes = [(f"{buyer}{student}", f"c{course}") for student in range(students) for course in range(courses)]
    random.Random(buyer).shuffle(wishes)
    told: dict[str, list[list[str]]] = {"joined": [], "refused": []}
    for student, course in wishes:
        while True:
            try:
                school.join(student, course)
            except IntegrityError:
                told["refused"].append([student, course])
                continue
            except CourseFull:
                pass
            else:
                told["joined"].append([student, course])
            break
    return told


def main() -> None:
    buyer, courses, students = sys.argv[1:]
    with School() as school:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        json.dump(join_all(school, buyer, int(courses), int(students)), sys.stdout)


if __name__ == "__main__":
    import school as module  # so that the topics are school:…, not __main__:…

    module.main()
