from __future__ import annotations

from functools import partial

import pytest
from at_once import conflicts, kinds, overlapping

from course_subscriptions import (
    MOST_COURSES,
    Course,
    CourseExists,
    CourseFull,
    CourseNotFound,
    Offer,
    Student,
    SubscribedAlready,
    TooManyCourses,
    change_capacity,
    define,
    subscribe,
)
from strandline import EventStore


def test_the_rules(store: EventStore) -> None:
    with pytest.raises(CourseNotFound):
        store.execute(subscribe, Student("s1"), Course("c1"))
    with pytest.raises(CourseNotFound):
        store.execute(change_capacity, Offer("c1"), 3)
    store.execute(define, Offer("c1"), 1)
    with pytest.raises(CourseExists):
        store.execute(define, Offer("c1"), 2)
    store.execute(subscribe, Student("s1"), Course("c1"))
    with pytest.raises(SubscribedAlready):
        store.execute(subscribe, Student("s1"), Course("c1"))
    with pytest.raises(CourseFull):
        store.execute(subscribe, Student("s2"), Course("c1"))
    assert store.execute(change_capacity, Offer("c1"), 1).count == 0
    assert store.execute(change_capacity, Offer("c1"), 2).count == 1
    store.execute(subscribe, Student("s2"), Course("c1"))
    assert store.project(Course("c1")).taken == 2


def test_a_student_takes_ten_courses_and_no_more(store: EventStore) -> None:
    for number in range(MOST_COURSES + 1):
        store.execute(define, Offer(f"c{number}"), 5)
    for number in range(MOST_COURSES):
        store.execute(subscribe, Student("s1"), Course(f"c{number}"))
    with pytest.raises(TooManyCourses):
        store.execute(subscribe, Student("s1"), Course(f"c{MOST_COURSES}"))


def test_the_last_seats_are_sold_once_each(store: EventStore) -> None:
    store.execute(define, Offer("c1"), 3)
    outcomes = overlapping(
        store, (partial(store.execute, subscribe, Student(f"s{n}"), Course("c1")) for n in range(8))
    )
    assert kinds(outcomes) == {"CourseFull": 5, "Executed": 3}
    assert store.project(Course("c1")).taken == 3


def test_the_last_free_place_of_a_student_is_given_once(store: EventStore) -> None:
    for number in range(MOST_COURSES + 3):
        store.execute(define, Offer(f"c{number}"), 5)
    for number in range(MOST_COURSES - 1):
        store.execute(subscribe, Student("s1"), Course(f"c{number}"))
    courses = [Course(f"c{number}") for number in range(MOST_COURSES - 1, MOST_COURSES + 3)]
    outcomes = overlapping(store, (partial(store.execute, subscribe, Student("s1"), c) for c in courses))
    assert kinds(outcomes) == {"Executed": 1, "TooManyCourses": 3}


def test_decisions_meet_only_where_their_boundaries_do(store: EventStore) -> None:
    for course in ("c1", "c2"):
        store.execute(define, Offer(course), 5)
    seat = partial(store.execute, subscribe, Student("s1"), Course("c1"))
    other_seat = partial(store.execute, subscribe, Student("s2"), Course("c2"))
    change = partial(store.execute, change_capacity, Offer("c1"), 6)
    assert conflicts(store, seat, other_seat) == 0
    seat = partial(store.execute, subscribe, Student("s3"), Course("c1"))
    assert conflicts(store, change, seat) == 0
    seat = partial(store.execute, subscribe, Student("s4"), Course("c1"))
    change = partial(store.execute, change_capacity, Offer("c1"), 7)
    assert conflicts(store, seat, change) == 1
