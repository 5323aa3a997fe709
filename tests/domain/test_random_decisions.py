"""Random decisions of two stores on one log, with caches and snapshots, rivals and retags, against a naive model.

The model folds everything anew, with the tags as of then: whatever a decision was given when its events were
accepted must be what the log says just before them, and no state may differ from a fold of all events.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

import strandline
from places import Place
from strandline import (
    AppendConditionFailed,
    DomainEvent,
    EventStore,
    Executed,
    IdempotencyKeyReused,
    Projection,
    SequencedEvent,
    TagId,
    command,
    on,
)
from strandline.testing import interfering, violations
from strandline.testing.oracle import History


class AId(TagId): ...


class BId(TagId): ...


class Fact(DomainEvent):
    """What all events have."""

    a: list[AId] = []
    b: BId | None = None
    n: int = 0


class X(Fact): ...


class Y(Fact): ...


class Z(Fact): ...


class All(Projection):
    id: AId
    seen: list[int] = []

    @on
    def happened(self, event: X | Y) -> None:
        self.seen.append(event.n)


class More(All):
    @on
    def more(self, event: Z) -> None:
        self.seen.append(-event.n)


class Soft(Projection):
    """Its Y do not spoil a decision."""

    id: AId
    seen: list[int] = []
    soft: list[int] = []

    @on
    def happened(self, event: X) -> None:
        self.seen.append(event.n)

    @on(conflicts=False)
    def harmless(self, event: Y) -> None:
        self.soft.append(event.n)


class Kept(Projection, snapshot_every=2):
    id: AId
    seen: list[int] = []

    @on
    def happened(self, event: X | Y | Z) -> None:
        self.seen.append(event.n)


class Last(Projection, last_only=True):
    id: BId
    n: int = -1

    @on
    def happened(self, event: X | Z) -> None:
        self.n = event.n


class Tags(Projection):
    """Looks at tags that no condition asks for."""

    id: BId
    seen: list[int] = []
    tags: list[tuple[str, ...]] = []

    @on
    def happened(self, event: X, recorded: SequencedEvent) -> None:
        self.seen.append(recorded.position)
        self.tags.append(recorded.tags)


class Both(Projection):
    a: AId
    b: BId
    seen: list[int] = []

    @on
    def happened(self, event: X | Y) -> None:
        self.seen.append(event.n)


class Everywhere(Projection):
    seen: list[int] = []

    @on
    def happened(self, event: X) -> None:
        self.seen.append(event.n)


class Refused(Exception): ...


class Plan:
    """What a decision is to come to, and what it was given."""

    def __init__(self, events: Sequence[Fact], *, refuses: bool) -> None:
        self.events = events
        self.refuses = refuses
        self.given: list[Projection] = []

    def decide(self, *states: Projection) -> Iterator[Fact]:
        self.given = [copy.deepcopy(state) for state in states]
        for state in states:
            vars(state).update(seen=["spoilt"], n="spoilt")  # it is theirs to change
        if self.refuses:
            raise Refused
        yield from self.events


@command
def on_lists(
    alls: list[All], mores: list[More], softs: list[Soft], kepts: list[Kept], plan: Plan
) -> Iterator[Fact]:
    yield from plan.decide(*alls, *mores, *softs, *kepts)


@command
def on_others(
    lasts: list[Last], tags: list[Tags], boths: list[Both], kept: Kept, plan: Plan
) -> Iterator[Fact]:
    yield from plan.decide(*lasts, *tags, *boths, kept)


@command
def on_types(everywhere: Everywhere, one: All, other: All, plan: Plan) -> Iterator[Fact]:
    yield from plan.decide(everywhere, one, other)


PROJECTIONS: list[Projection] = [
    Everywhere(),
    *(kind(key) for kind in (All, More, Soft, Kept) for key in "123"),
    *(kind(key) for kind in (Last, Tags) for key in "12"),
    *(Both(a, b) for a in "123" for b in "12"),
]


class Play:
    """A random history."""

    def __init__(self, stores: Sequence[EventStore], seed: int) -> None:
        self._stores = stores
        self._random = random.Random(seed)
        self._count = 0
        self._done: list[tuple[Plan, Executed[Any]]] = []

    def run(self) -> None:
        for _ in range(self._random.choice([5, 15, 30])):
            store = self._store()
            rivals = [self._act] * self._random.choice([0, 0, 1, 1, 2])
            with interfering(store, *rivals):
                self._decide(store)
            self._compare([self._projection()])
            self._change()
        self._compare(PROJECTIONS)

    def _compare(self, projections: Sequence[Projection]) -> None:
        events = list(self._stores[0].read())
        history = History(events)
        for plan, executed in self._done:
            for state in plan.given:
                folded = _folded(state, events[: executed.first - 1], history)
                hard, given = (vars(each) | {"soft": None} for each in (folded, state))
                assert hard == given, executed
        self._done.clear()
        for projection in projections:
            for store in self._stores:
                assert store.project(projection) == _folded(projection, events, history)

    def _act(self) -> None:
        self._decide(self._store()) if self._random.random() < 0.4 else self._change()

    def _change(self) -> None:
        store, rng = self._store(), self._random
        targets = [event.position for event in store.read() if not event.type.startswith("$")]
        if not targets or rng.random() < 0.5:
            store.append([self._fact() for _ in range(rng.choice([1, 1, 2]))])
            return
        prefix, values = rng.choice([("a", "123"), ("b", "12")])
        store.retag(
            rng.sample(targets, rng.choice([1, 1, 2]) if len(targets) > 1 else 1),
            replace={prefix: rng.sample(values, rng.choice([0, 1, 1]))},
            add=[AId(rng.choice("123"))] if rng.random() < 0.3 else [],
        )

    def _decide(self, store: EventStore) -> None:
        rng = self._random
        plan = Plan([self._fact() for _ in range(rng.choice([1, 1, 2]))], refuses=rng.random() < 0.05)
        key = {"idempotency_key": f"k{rng.randrange(9)}"} if rng.random() < 0.2 else {}
        execute: Callable[[], Executed[Any]] = rng.choice(
            [
                lambda: store.execute(
                    on_lists.with_options(**key),
                    self._some(All),
                    self._some(More),
                    [Soft(rng.choice("123"))],
                    self._some(Kept),
                    plan,
                ),
                lambda: store.execute(
                    on_others.with_options(**key),
                    [Last(rng.choice("12"))],
                    [Tags("1")][: rng.randrange(2)],
                    [Both(rng.choice("123"), rng.choice("12"))],
                    Kept(rng.choice("123")),
                    plan,
                ),
                lambda: store.execute(
                    on_types.with_options(**key),
                    Everywhere(),
                    All(rng.choice("123")),
                    All(rng.choice("123")),
                    plan,
                ),
            ]
        )
        try:
            executed = execute()
        except (Refused, AppendConditionFailed, IdempotencyKeyReused):
            return
        if not executed.duplicate:
            self._done.append((plan, executed))

    def _some(self, kind: type[Any]) -> list[Any]:
        return [kind(key) for key in self._random.choices("123", k=self._random.choice([0, 0, 0, 1, 2]))]

    def _projection(self) -> Projection:
        return self._random.choice(PROJECTIONS)

    def _fact(self) -> Fact:
        rng = self._random
        self._count += 1
        ids = [AId(value) for value in rng.sample("123", rng.choice([0, 1, 1, 2]))]
        return rng.choice([X, X, Y, Z])(
            a=ids, b=BId(rng.choice("12")) if rng.random() < 0.5 else None, n=self._count
        )

    def _store(self) -> EventStore:
        return self._random.choice(self._stores)


def _folded(projection: Projection, events: Sequence[SequencedEvent], history: History) -> Projection:
    """What a fold of these events gives, with the tags that they had when the last of them was written."""
    state, query = projection._fresh(), projection.query()
    as_of = [event.with_present_tags(history.tags_as_of(event, len(events))) for event in events]
    matching = [event for event in as_of if query.matches(event)]
    for event in matching[-1:] if state._last_only else matching:
        state.apply(event)
    return state


@pytest.mark.filterwarnings("ignore::strandline.MissingTags")
def test_no_decision_and_no_state_differs_from_a_naive_fold() -> None:
    for seed in range(120):
        with strandline.connect("memory:") as store:
            Play([store, EventStore(store.engine)], seed).run()
            assert violations(store) == []


@pytest.mark.filterwarnings("ignore::strandline.MissingTags")
def test_no_decision_of_two_connections_differs_from_a_naive_fold(kept: Place) -> None:
    for seed in range(4):
        place = kept.another()
        with place.connect() as store, place.connect() as other:
            Play([store, other], seed).run()
            assert violations(store) == []
