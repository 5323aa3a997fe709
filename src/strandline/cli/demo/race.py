"""The race: clients take wishes from one heap and subscribe students, all at once."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import msgspec

from strandline import EventStore, Query, QueryItem, SequencedEvent

from . import courses

COURSES = {"algebra": 100, "biology": 80, "chemistry": 60, "drawing": 40, "english": 20, "fencing": 5}
WISHES_EACH = 4

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


class Course(msgspec.Struct):
    """A course as the log tells it."""

    name: str
    seats: int
    sold: list[int] = []
    """The seat of each subscription, in the order of the log."""

    @property
    def sold_twice(self) -> int:
        """Subscriptions that took a seat which was taken, or which the course does not have."""
        return len(self.sold) - len({seat for seat in self.sold if 1 <= seat <= self.seats})


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
        courses.define(store, term.name(name), seats)
    return term


def run_clients(
    store: EventStore, wanted: list[Wish], clients: int, step: Callable[[int], object]
) -> Outcome:
    """Let the clients answer all wishes."""
    heap, lock = deque(wanted), threading.Lock()
    outcome = Outcome(0.0, 0, 0, Counter())
    started = time.perf_counter()
    with ThreadPoolExecutor(clients, thread_name_prefix="client") as pool:
        try:
            running = [pool.submit(_client, store, heap, lock, outcome, step) for _ in range(clients)]
            for client in running:
                client.result()
        finally:
            heap.clear()  # if one failed, or somebody pressed Ctrl-C, the others stop too
    outcome.seconds = time.perf_counter() - started
    return outcome


def fold(events: Iterable[SequencedEvent]) -> dict[str, Course]:
    """The courses, from nothing but the log."""
    found: dict[str, Course] = {}
    for event in events:
        data = event.json()
        if event.type == "CourseDefined":
            found[data["course"]] = Course(data["course"], data["seats"])
        else:
            found[data["course"]].sold.append(data["seat"])
    return found


def courses_of(store: EventStore, names: list[str]) -> list[Course]:
    """The courses of these names, folded from the log."""
    types = ["CourseDefined", "StudentSubscribed"]
    query = Query(QueryItem(types=types, tags=[f"course:{name}"]) for name in names)
    folded = fold(store.read(query))
    return [folded[name] for name in names]


def _client(
    store: EventStore,
    heap: deque[Wish],
    lock: threading.Lock,
    outcome: Outcome,
    step: Callable[[int], object],
) -> None:
    while wish := _next(heap):
        student, course = wish
        conflicts: list[None] = []
        reason = _answer(store, student, course, conflicts)
        with lock:
            outcome.conflicts += len(conflicts)
            outcome.subscribed += not reason
            outcome.refused.update([(course, reason)] if reason else [])
            step(outcome.decided)


def _answer(store: EventStore, student: str, course: str, conflicts: list[None]) -> str:
    """Why the wish was refused, empty if it was not."""
    try:
        courses.subscribe(store, student, course, lambda: conflicts.append(None))
    except courses.Refused as refusal:
        return str(refusal)
    return ""


def _next(heap: deque[Wish]) -> Wish | None:
    try:
        return heap.popleft()
    except IndexError:
        return None
