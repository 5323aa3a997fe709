"""Course subscriptions: a course has a number of seats, and a student takes at most ten courses.

The problem: subscribing a student to a course touches both, and neither may break its rule, however many
clients subscribe at once. Streams per entity fail at it: the seats are counted in the course's stream and the
courses in the student's, an append is checked against one of them, and so the other rule is checked against
something that may be out of date (or a saga has to take seats back). Here the boundary is what the rule
speaks of, the events of this course and those of this student, and no other; one event, tagged with both, is
the subscription.

The scenario is the first example of https://dcb.events, with all its features.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import strandline
from strandline import DomainEvent, EventStore, Projection, TagId, command, on

MOST_COURSES = 10


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


class Refused(Exception):
    """The rules say no."""


class CourseExists(Refused): ...


class CourseNotFound(Refused): ...


class CourseFull(Refused): ...


class SubscribedAlready(Refused): ...


class TooManyCourses(Refused): ...


class Offer(Projection):
    """What a course offers. It does not know of subscriptions, so these never get in its way."""

    id: CourseId
    exists: bool = False
    capacity: int = 0

    @on
    def offered(self, event: CourseDefined | CapacityChanged) -> None:
        self.exists, self.capacity = True, event.capacity


class Course(Offer):
    """The offer, and how much of it is taken."""

    taken: int = 0

    @on
    def subscribed(self, event: StudentSubscribed) -> None:
        self.taken += 1


class Student(Projection):
    id: StudentId
    courses: list[CourseId] = []

    @on
    def subscribed(self, event: StudentSubscribed) -> None:
        self.courses.append(event.course)


@command
def define(course: Offer, capacity: int) -> Iterator[CourseDefined]:
    """Offer a course that is not offered yet."""
    if course.exists:
        raise CourseExists(course.id)
    yield CourseDefined(course=course.id, capacity=capacity)


@command
def change_capacity(course: Offer, capacity: int) -> Iterator[CapacityChanged]:
    """Change the number of seats; nothing is written if it is that number already."""
    if not course.exists:
        raise CourseNotFound(course.id)
    if capacity != course.capacity:
        yield CapacityChanged(course=course.id, capacity=capacity)


@command
def subscribe(student: Student, course: Course) -> Iterator[StudentSubscribed]:
    """Take a seat. The signature is the boundary: this student, this course."""
    if not course.exists:
        raise CourseNotFound(course.id)
    if course.id in student.courses:
        raise SubscribedAlready(student.id, course.id)
    if course.taken >= course.capacity:
        raise CourseFull(course.id)
    if len(student.courses) >= MOST_COURSES:
        raise TooManyCourses(student.id)
    yield StudentSubscribed(student=student.id, course=course.id)


def story(store: EventStore) -> None:
    """Three seats, and twelve students who want them at the same time."""
    store.execute(define, Offer("algebra"), 2)
    store.execute(change_capacity, Offer("algebra"), 3)
    print("algebra is offered with 2 seats, then with 3; what a subscription depends on:\n")
    store.explain(subscribe, Student("s1"), Course("algebra"))

    def wish(number: int) -> str:
        try:
            store.execute(subscribe.with_options(attempts=50), Student(f"s{number}"), Course("algebra"))
        except CourseFull:
            return "full"
        return "in"

    with ThreadPoolExecutor(12) as clients:
        answers = list(clients.map(wish, range(12)))
    print(
        f"\n12 students at once: {answers.count('in')} are in, {answers.count('full')} heard that it is full"
    )

    algebra = store.project(Course("algebra"))
    print(f"the log says: {algebra.taken} of {algebra.capacity} seats are taken")
    try:
        store.execute(subscribe, Student(f"s{answers.index('in')}"), Course("algebra"))
    except SubscribedAlready as refusal:
        print(f"and nobody gets in twice: SubscribedAlready{refusal}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, strandline.connect(f"{folder}/courses.db") as school:
        story(school)
