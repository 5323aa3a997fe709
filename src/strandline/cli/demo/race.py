"""The race: clients take wishes from one heap and subscribe students, all at once."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import msgspec

from strandline import EventStore, Query

from .courses import Course, Refused, Sales, Student, define, subscribe

COURSES = {"algebra": 100, "biology": 80, "chemistry": 60, "drawing": 40, "english": 20, "fencing": 5}
WISHES_EACH = 4
PATIENTLY = subscribe.with_options(attempts=1_000)  # a conflict is somebody's seat, so it ends with the seats

Wish = tuple[str, str]


class Outcome(msgspec.Struct):
    """What the clients met."""

    seconds: float
    subscribed: int
    conflicts: int
    refused: Counter[tuple[str, str]]
    """By course and reason."""

    @property
    def decided(self) -> int:
        """How many wishes were answered."""
        return self.subscribed + self.refused.total()


class Term(msgspec.Struct, frozen=True):
    """One playing of the demo: a store that has seen earlier ones gets other courses and students."""

    number: int

    def name(self, name: str) -> str:
        """The name in this term."""
        return name if self.number == 1 else f"{name}-{self.number}"

    def courses(self) -> list[str]:
        """The names of the courses."""
        return [self.name(name) for name in COURSES]

    def wishes(self, students: int, seed: int) -> list[Wish]:
        """More wishes than there are seats, in random order."""
        chance = random.Random(seed)
        names = [self.name(f"s{number}") for number in range(1, students + 1)]
        made = [(name, course) for name in names for course in chance.sample(self.courses(), WISHES_EACH)]
        chance.shuffle(made)
        return made


def open_term(store: EventStore) -> Term:
    """Define the courses of a new term."""
    term = Term(store.count(Query.types("CourseDefined")) // len(COURSES) + 1)
    for name, seats in COURSES.items():
        store.execute(define, Course(term.name(name)), seats)
    return term


def run_clients(
    store: EventStore, wanted: list[Wish], clients: int, step: Callable[[int], object]
) -> Outcome:
    """Let the clients answer all wishes."""
    heap, lock = deque(wanted), threading.Lock()
    outcome = Outcome(0.0, 0, 0, Counter())
    refused_before = store.stats().refused
    started = time.perf_counter()
    with ThreadPoolExecutor(clients, thread_name_prefix="client") as pool:
        try:
            running = [pool.submit(_client, store, heap, lock, outcome, step) for _ in range(clients)]
            for client in running:
                client.result()
        finally:
            heap.clear()  # if one failed, or somebody pressed Ctrl-C, the others stop too
    outcome.seconds = time.perf_counter() - started
    outcome.conflicts = store.stats().refused - refused_before
    return outcome


def sales_of(store: EventStore, names: list[str]) -> list[Sales]:
    """What was sold of these courses, from nothing but the log."""
    return [store.project(Sales(name)) for name in names]


def _client(
    store: EventStore,
    heap: deque[Wish],
    lock: threading.Lock,
    outcome: Outcome,
    step: Callable[[int], object],
) -> None:
    while wish := _next(heap):
        student, course = wish
        reason = answer(store, student, course)
        with lock:
            outcome.subscribed += not reason
            outcome.refused.update([(course, reason)] if reason else [])
            step(outcome.decided)


def answer(store: EventStore, student: str, course: str) -> str:
    """Why the wish was refused, empty if it was not."""
    try:
        store.execute(PATIENTLY, Student(student), Course(course))
    except Refused as refusal:
        return str(refusal)
    return ""


def _next(heap: deque[Wish]) -> Wish | None:
    try:
        return heap.popleft()
    except IndexError:
        return None
