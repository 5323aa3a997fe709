from __future__ import annotations

from functools import partial

import pytest
from at_once import conflicts, kinds, overlapping

from courses import Course, Student, define, play, subscribe
from strandline import EventStore
from strandline.cli.demo.courses import Refused
from strandline.cli.demo.race import COURSES, sales_of


def test_no_seat_is_sold_twice(store: EventStore) -> None:
    term, outcome = play(store, students=25, clients=6)
    sold = sales_of(store, term.courses())
    assert [course.sold_twice for course in sold] == [0] * len(COURSES)
    assert sum(len(course.sold) for course in sold) == outcome.subscribed == store.head() - len(COURSES)
    assert outcome.decided == 25 * 4


def test_the_last_seat_goes_to_one(store: EventStore) -> None:
    store.execute(define, Course("c1"), 1)
    outcomes = overlapping(
        store, (partial(store.execute, subscribe, Student(f"s{n}"), Course("c1")) for n in range(6))
    )
    assert kinds(outcomes) == {"Executed": 1, "Refused": 5}
    assert {str(outcome) for outcome in outcomes if isinstance(outcome, Refused)} == {"course full"}


def test_a_seat_that_was_taken_meanwhile_is_not_sold_again(store: EventStore) -> None:
    store.execute(define, Course("c1"), 2)
    first, second = (partial(store.execute, subscribe, Student(name), Course("c1")) for name in ("s1", "s2"))
    assert conflicts(store, first, second) == 1
    assert [sales.sold for sales in sales_of(store, ["c1"])] == [[1, 2]]
    with pytest.raises(Refused, match="course full"):
        store.execute(subscribe, Student("s3"), Course("c1"))
