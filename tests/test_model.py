"""A model of five processes that read, decide and append in 10^5 random schedules (R14, V7).

The memory engine judges; a referee that shares no code with it keeps, for every open decision, the set
of matching events, and knows when it changed. UNSAFE: accepted although it changed. FALSE: refused
although it did not.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from strandline import AppendCondition, AppendConditionFailed, AppendRequest, Event, Query, QueryItem
from strandline.engine import Outcome, Span, Work
from strandline.engine.memory import MemoryEngine
from strandline.engine.rules import Time
from strandline.retag import Retag

SCHEDULES = 100_000
PROCESSES = 5
TYPES = ("A", "B")
TAGS = ("x:1", "x:2", "y:1", "y:2")

Item = tuple[frozenset[str], frozenset[str]]


@dataclass(frozen=True)
class Asked:
    """A query twice: as the engine knows it, and as sets for the referee."""

    query: Query
    items: tuple[Item, ...]

    def matches(self, fact: Fact) -> bool:
        return any((not types or fact.type in types) and tags <= fact.tags for types, tags in self.items)


@dataclass
class Fact:
    """An event as the referee sees it."""

    type: str
    tags: frozenset[str]


@dataclass
class Decision:
    """What a process read with its tags, and whether that has changed since."""

    asked: Asked
    head: int
    seen: dict[int, frozenset[str]]
    is_stale: bool = False


@dataclass
class Referee:
    """All facts in order, and the decisions that are open."""

    facts: list[Fact] = field(default_factory=list)
    open: dict[int, Decision] = field(default_factory=dict)

    def read(self, process: int, asked: Asked) -> Decision:
        seen = self.matching(asked)
        self.open[process] = Decision(asked, len(self.facts), seen)
        return self.open[process]

    def changed(self) -> None:
        for decision in self.open.values():
            decision.is_stale |= self.matching(decision.asked) != decision.seen

    def matching(self, asked: Asked) -> dict[int, frozenset[str]]:
        return {n: fact.tags for n, fact in enumerate(self.facts, 1) if asked.matches(fact)}


def some_asked(rng: random.Random) -> Asked:
    items = tuple(
        (
            frozenset(rng.sample(TYPES, rng.choice([0, 1, 1, 2]))),
            frozenset(rng.sample(TAGS, rng.choice([1, 1, 2]))),
        )
        for _ in range(rng.choice([1, 2, 2, 3]))
    )
    return Asked(Query.of(*(QueryItem(types=types, tags=tags) for types, tags in items)), items)


def some_event(rng: random.Random) -> tuple[Event, Fact]:
    type_, tags = rng.choice(TYPES), rng.sample(TAGS, rng.choice([1, 2, 2]))
    return Event(type_, b"", tags=tags), Fact(type_, frozenset(tags))


def written(engine: MemoryEngine, work: Work) -> Outcome:
    """What comes of a work that is written alone."""
    (outcome,) = engine.append(lambda: [work])
    return outcome


class Schedules:
    """Plays schedules and counts what came of them."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.asked = [some_asked(self.rng) for _ in range(200)]
        self.events = [some_event(self.rng) for _ in range(300)]
        self.accepted = self.refused = self.unsafe = self.false = self.retags = 0

    def play(self) -> None:
        engine, referee = MemoryEngine(Time()), Referee()
        # Every process has two steps, so that reads and appends of all interleave at random.
        steps = [process for process in range(PROCESSES) for _ in range(2)]
        self.rng.shuffle(steps)
        pool = iter(self.rng.sample(self.events, PROCESSES + 2))
        for event, fact in (next(pool), next(pool)):
            written(engine, AppendRequest(event))
            referee.facts.append(Fact(fact.type, fact.tags))
        for process in steps:
            if process not in referee.open:
                self.read(engine, referee, process)
            elif self.rng.random() < 0.15:
                del referee.open[process]
                self.retag(engine, referee)
            else:
                self.append(engine, referee, process, *next(pool))

    def read(self, engine: MemoryEngine, referee: Referee, process: int) -> None:
        asked = self.rng.choice(self.asked)
        decision = referee.read(process, asked)
        page = engine.read_page(asked.query, Span(), 100)
        assert {event.position for event in page.events} == decision.seen.keys()
        assert page.head == decision.head

    def append(self, engine: MemoryEngine, referee: Referee, process: int, event: Event, fact: Fact) -> None:
        decision = referee.open.pop(process)
        condition = AppendCondition(decision.asked.query, after=decision.head)
        if self.rng.random() < 0.1:
            condition = None  # an unconditional append takes part too (R4)
        outcome = written(engine, AppendRequest(event, condition))
        is_refused = isinstance(outcome, AppendConditionFailed)
        self.refused += is_refused
        self.accepted += not is_refused
        if condition is not None:
            self.unsafe += decision.is_stale and not is_refused
            self.false += is_refused and not decision.is_stale
        if not is_refused:
            referee.facts.append(Fact(fact.type, fact.tags))
            referee.changed()

    def retag(self, engine: MemoryEngine, referee: Referee) -> None:
        position = self.rng.randrange(len(referee.facts)) + 1
        prefix, _, value = self.rng.choice(TAGS).partition(":")
        fact = referee.facts[position - 1]
        if fact.type.startswith("$"):
            return
        result = written(engine, Retag([position], replace={prefix: [value]}))
        old = {tag for tag in fact.tags if tag.startswith(f"{prefix}:")}
        if old and old != {f"{prefix}:{value}"}:
            self.retags += 1
            fact.tags = (fact.tags - old) | {f"{prefix}:{value}"}
            referee.facts.append(Fact("$retagged", frozenset()))
            assert result.count == 1  # type: ignore[union-attr]
            referee.changed()


def test_100_000_schedules_have_no_unsafe_append_and_no_false_refusal() -> None:
    schedules = Schedules(seed=2026)
    for _ in range(SCHEDULES):
        schedules.play()
    assert (schedules.unsafe, schedules.false) == (0, 0)
    assert schedules.accepted > SCHEDULES
    assert schedules.refused > SCHEDULES / 10
    assert schedules.retags > SCHEDULES / 10
