from __future__ import annotations

from functools import partial

import pytest
from at_once import at_once, kinds, meanwhile, overlapping

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
    decision = overlapping(subscribe, 6)
    outcomes = at_once(partial(store.execute, decision, Student(f"s{n}"), Course("c1")) for n in range(6))
    assert kinds(outcomes) == {"Executed": 1, "Refused": 5}
    assert {str(outcome) for outcome in outcomes if isinstance(outcome, Refused)} == {"course full"}


def test_a_seat_that_was_taken_meanwhile_is_not_sold_again(store: EventStore) -> None:
    store.execute(define, Course("c1"), 2)
    rival = partial(store.execute, subscribe, Student("s2"), Course("c1"))
    store.execute(meanwhile(subscribe, rival), Student("s1"), Course("c1"))
    assert store.stats().refused == 1
    assert [sales.sold for sales in sales_of(store, ["c1"])] == [[1, 2]]
    with pytest.raises(Refused, match="course full"):
        store.execute(subscribe, Student("s3"), Course("c1"))
