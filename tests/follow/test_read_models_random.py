"""Random histories with retags and rebuilds: the table is the fold."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from lessons import Course, Newest, Seat, define, join, table_in

from places import Place
from strandline import EventStore, Projection, Query
from strandline.follow import ReadModel

COURSES = ["c1", "c2", "c3"]
STUDENTS = ["s1", "s2"]
PROJECTIONS: list[type[Projection]] = [Course, Seat, Newest]

actions = st.one_of(
    st.tuples(st.just("define"), st.sampled_from(COURSES)),
    st.tuples(st.just("join"), st.sampled_from(STUDENTS), st.lists(st.sampled_from(COURSES), max_size=3)),
    st.tuples(
        st.just("retag"), st.integers(1, 12), st.lists(st.sampled_from(COURSES), max_size=2, unique=True)
    ),
    st.tuples(st.just("student"), st.integers(1, 12), st.sampled_from(STUDENTS)),
    st.tuples(st.just("deliver"), st.integers(1, 3)),
    st.tuples(st.just("rebuild"), st.integers(1, 3)),
)


def judge(model: ReadModel[Any], store: EventStore) -> None:
    """Every row is the fold of its key, and every key with events has a row."""
    keys = list(product(COURSES, STUDENTS)) if model.projection is Seat else [(course,) for course in COURSES]
    expected = [
        store.project(model.projection, *key) for key in keys if store.exists(model.projection(*key).query())
    ]
    order = "course, student" if model.projection is Seat else "course"
    assert model.find(order_by=order) == expected


def perform(store: EventStore, models: list[ReadModel[Any]], action: Any) -> None:
    match action:
        case "define", course:
            store.append(define(course, store.head()))
        case "join", student, courses:
            store.append(join(student, *courses))
        case "retag", position, courses:
            events = list(store.read(Query.types("Joined", "Defined"), limit=position))
            if events:
                store.retag(events[-1].position, replace={"course": courses})
        case "student", position, student:
            store.retag(Query.tag(f"student:s{position % 2 + 1}"), replace={"student": [student]})
        case "deliver", batch:
            for model in models:
                model.catch_up(store, batch)
        case "rebuild", batch:
            for model in models:
                model.rebuild(store, batch)


def play(place: Place, history: list[Any]) -> None:
    with place.connect() as store:
        models = [
            ReadModel(projection, table=table_in(place, projection.__name__.lower()))
            for projection in PROJECTIONS
        ]
        for action in history:
            perform(store, models, action)
        for model in models:
            model.catch_up(store, 2)
            judge(model, store)


@settings(max_examples=40)
@given(st.lists(actions, max_size=14))
def test_random_histories(history: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        play(Place(Path(folder) / "log.db"), history)


def test_a_few_random_histories_on_postgresql(new_place: Callable[[str], Place]) -> None:
    rng = random.Random(7)
    for _ in range(4):
        history: list[Any] = []
        for _ in range(14):
            name = rng.choice(["define", "join", "join", "retag", "student", "deliver", "rebuild"])
            courses = rng.sample(COURSES, rng.randrange(3))
            history.append(
                {
                    "define": (name, rng.choice(COURSES)),
                    "join": (name, rng.choice(STUDENTS), courses),
                    "retag": (name, rng.randrange(1, 12), courses),
                    "student": (name, rng.randrange(1, 12), rng.choice(STUDENTS)),
                    "deliver": (name, rng.randrange(1, 4)),
                    "rebuild": (name, rng.randrange(1, 4)),
                }[name]
            )
        play(new_place("postgres18"), history)
