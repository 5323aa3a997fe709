"""Random schedules of runners, appends, retags, renewals, clock jumps and crashes, step by step.

What a handler did in a transaction counts when the transaction is committed. Whatever happens between two steps, that
is in the end what the query says.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import strandline
from follow.following import some
from strandline import EventStore, Query, SequencedEvent
from strandline.follow.options import Options
from strandline.follow.steps import Begin, End, Handle, Step, Wait, Within
from strandline.testing import ManualClock

QUERY = Query.tag("k:1")
LEASE_SECONDS = 60
TAGS = ("k:1", "k:2", "k:1", "x")


class Table:
    """What handlers write to, with the changes of the one transaction that may be open."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.changed: list[int] | None = None

    def handle(self, events: list[SequencedEvent], tx: Any) -> None:
        assert self.changed is not None
        self.changed.extend(event.position for event in events)

    def on_retag(self, retag: SequencedEvent, tx: Any) -> int:
        assert self.changed is not None
        self.changed.clear()
        return 0


class Runner:
    """A run of the follower that takes a step when it is told to."""

    def __init__(self, store: EventStore, table: Table, batch: int) -> None:
        self._table = table
        follower = store.follower("f", QUERY, lease=LEASE_SECONDS)
        self._steps = follower.begin_run(
            Options(table.handle, batch, on_retag=table.on_retag, attempts=2, backoff=0)
        )
        self._next: Step = next(self._steps)

    @property
    def can_go_on(self) -> bool:
        """Nobody can begin a transaction while one is open."""
        return not isinstance(self._next, Begin) or self._table.changed is None

    def step(self) -> None:
        try:
            answer = self._perform(self._next)
        except Exception as error:
            self._next = self._steps.throw(error)
        else:
            self._next = self._steps.send(answer)

    def _perform(self, step: Step) -> Any:
        table = self._table
        match step:
            case Begin(tx):
                tx.begin()
                table.changed = list(table.rows)
            case End(tx):
                tx.end()
                table.changed = None
            case Handle(handle, subject, tx):
                return handle(subject, tx)
            case Wait():
                return None
            case Within(tx, call) if call == tx.commit:
                call()
                assert table.changed is not None
                table.rows = list(table.changed)
            case _:
                return step.call()
        return None

    def crash(self) -> None:
        """Take no step any more; what is in the database stays."""
        if isinstance(self._next, (Within, Handle, End)):
            self._table.changed = None
        self._steps.close()


class Schedule:
    """A log and some runners."""

    def __init__(self, store: EventStore, clock: ManualClock, batch: int) -> None:
        self.store, self.clock, self.batch = store, clock, batch
        self.table = Table()
        self.runners = [Runner(store, self.table, batch) for _ in range(2)]

    def do(self, action: tuple[Any, ...]) -> None:
        match action:
            case ("steps", runner, count):
                for _ in range(count):
                    if self.runners[runner].can_go_on:
                        self.runners[runner].step()
            case ("append", numbers):
                self.store.append([event for number in numbers for event in some(TAGS[number])])
            case ("retag", position, key) if 1 <= position <= self.store.head():
                if not next(iter(self.store.read(after=position - 1, limit=1))).type.startswith("$"):
                    self.store.retag([position], replace={"k": [key]})
            case ("crash", runner):
                self.runners[runner].crash()
                self.runners[runner] = Runner(self.store, self.table, self.batch)
            case ("clock", seconds):
                self.clock.move(seconds)
            case ("late renewal", runner, count):
                due = [(lease, lease.use) for lease in self.store.leases._held]
                self.do(("steps", runner, count))
                if due and self.table.changed is None:
                    self.store.leases._renew(due)
            case ("reset", position) if self.table.changed is None and position <= self.store.head():
                self.table.rows = [row for row in self.table.rows if row <= position]
                self.store.follower("f", QUERY).reset(position)

    def end(self) -> None:
        for runner in self.runners:
            runner.crash()
        self.clock.move(10_000 * LEASE_SECONDS)
        last = Runner(self.store, self.table, self.batch)
        for _ in range(10_000):
            if self.table.changed is None and not self.store.follower("f", QUERY).status().lag:
                break
            last.step()
        last.crash()


ACTIONS = st.one_of(
    st.tuples(st.just("steps"), st.integers(0, 1), st.integers(1, 30)),
    st.tuples(st.just("steps"), st.integers(0, 1), st.integers(1, 5)),
    st.tuples(st.just("append"), st.lists(st.integers(0, 3), min_size=1, max_size=4)),
    st.tuples(st.just("retag"), st.integers(1, 5), st.sampled_from(["1", "2"])),
    st.tuples(st.just("crash"), st.integers(0, 1)),
    st.tuples(st.just("clock"), st.sampled_from([LEASE_SECONDS + 1, -LEASE_SECONDS - 1, 5])),
    st.tuples(st.just("late renewal"), st.integers(0, 1), st.integers(1, 30)),
    st.tuples(st.just("reset"), st.sampled_from([0])),
)


@settings(max_examples=400)
@given(st.lists(ACTIONS, max_size=60), st.integers(1, 3))
def test_whatever_happens_between_two_steps_the_outcome_is_what_the_query_says(
    actions: list[tuple[Any, ...]], batch: int
) -> None:
    clock = ManualClock()
    with strandline.connect("memory:", clock=clock) as store:
        schedule = Schedule(store, clock, batch)
        for action in actions:
            schedule.do(action)
        store.append(some("k:1"))
        schedule.end()
        assert schedule.table.rows == [event.position for event in store.read(QUERY)]
        assert store.follower("f", QUERY).dead_letters() == []
