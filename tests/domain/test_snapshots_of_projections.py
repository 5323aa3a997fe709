"""Snapshots: the fold of a long history begins where somebody ended it; no state differs because of that."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
from enrolment import CapacityChanged, CourseDefined, CourseId, StudentId, StudentSubscribed
from hypothesis import given, settings
from hypothesis import strategies as st

import strandline
from places import Place
from strandline import (
    DomainEvent,
    EventStore,
    InvalidInput,
    Projection,
    SequencedEvent,
    SnapshotFailed,
    command,
    on,
)
from strandline.domain.snapshot import same, version_of
from strandline.domain.steps import ReadEvents, SaveSnapshot
from strandline.engine import Snapshot
from strandline.errors import Unavailable


class Ledger(Projection, snapshot_every=3):
    """A state with all kinds of fields."""

    id: CourseId
    capacity: int | None = None
    students: list[StudentId] = []
    by_name: dict[StudentId, int] = {}
    seen: set[int] = set()
    last_at: datetime | None = None

    @on
    def changed(self, event: CourseDefined | CapacityChanged) -> None:
        self.capacity = event.capacity

    @on
    def subscribed(self, event: StudentSubscribed, recorded: SequencedEvent) -> None:
        self.students.append(event.student)
        self.by_name[event.student] = self.by_name.get(event.student, 0) + 1
        self.seen.add(recorded.position % 7)
        self.last_at = recorded.recorded_at


class Tally(Projection, snapshot_every=2):
    """One that our own appends bring up to date."""

    id: CourseId
    taken: int = 0

    @on
    def subscribed(self, event: StudentSubscribed) -> None:
        self.taken += 1


class Changed(Projection, snapshot_every=2, version=2):
    id: CourseId
    taken: int = 0

    @on
    def subscribed(self, event: StudentSubscribed) -> None:
        self.taken += 10


class Odd(Projection, snapshot_every=1):
    """A state that JSON would change."""

    id: CourseId
    names: Any = ()

    @on
    def subscribed(self, event: StudentSubscribed) -> None:
        self.names = (*self.names, event.student)


@command
def add(tally: Tally) -> StudentSubscribed:
    return subscribed(f"s{tally.taken}", tally.id)


def subscribed(student: str, course: str = "c1") -> StudentSubscribed:
    return StudentSubscribed(student=StudentId(student), course=CourseId(course))


@pytest.fixture
def store(place: Place) -> Iterator[EventStore]:
    with place.connect(decision_cache=0) as store:
        store.append(CourseDefined(course=CourseId("c1"), capacity=3))
        yield store


def reads(store: EventStore, projection: Projection) -> tuple[Any, list[int]]:
    """A projection, and the `after` of the reads that it took."""
    taken: list[int] = []
    perform = store._perform
    with pytest.MonkeyPatch.context() as patch:

        def noted(step: Any) -> Any:
            taken.extend([step.span.after] if isinstance(step, ReadEvents) else [])
            return perform(step)

        patch.setattr(store, "_perform", noted)
        return store.project(projection), taken


def test_a_long_fold_begins_where_the_last_one_ended(store: EventStore) -> None:
    store.append([subscribed("s1"), subscribed("s2")])
    first, taken = reads(store, Ledger("c1"))
    assert taken == [0]
    store.append(subscribed("s1"))
    second, taken = reads(store, Ledger("c1"))
    assert taken == [3]
    assert (second.students, second.by_name, second.capacity) == (["s1", "s2", "s1"], {"s1": 2, "s2": 1}, 3)
    assert {type(name) for name in (*second.students, *second.by_name)} == {StudentId}
    assert second.seen == {2, 3, 4}
    assert second.last_at is not None
    assert second.last_at.tzinfo is UTC
    assert first.students == ["s1", "s2"]


def test_a_short_fold_leaves_none(store: EventStore) -> None:
    store.append(subscribed("s1"))
    assert reads(store, Ledger("c1"))[1] == [0]
    assert reads(store, Ledger("c1"))[1] == [0]


def test_another_version_begins_anew(store: EventStore) -> None:
    store.append([subscribed("s1"), subscribed("s2")])
    assert store.project(Tally("c1")).taken == 2
    Changed.__qualname__ = "Tally"  # as if it were the next version of it
    assert reads(store, Changed("c1"))[0].taken == 20
    assert reads(store, Changed("c1"))[1] == [3]
    assert reads(store, Tally("c1"))[0].taken == 2


def test_a_change_of_the_fields_is_noticed_without_a_new_version(store: EventStore) -> None:
    store.append([subscribed("s1"), subscribed("s2")])
    saved = [Tally, *_redefined()]
    for cls in saved:
        assert store.project(cls("c1")).taken == 2


def _redefined() -> list[Any]:
    """What a programmer makes of `Tally` next."""

    class Renamed(Projection, snapshot_every=2):
        id: CourseId
        taken: float = 0

        @on
        def subscribed(self, event: StudentSubscribed) -> None:
            self.taken += 1

    class Lower(Projection, snapshot_every=2):
        id: CourseId
        taken: int = 10

        @on
        def subscribed(self, event: StudentSubscribed) -> None:
            self.taken -= 4

    for cls in (Renamed, Lower):
        cls.__qualname__, cls.__module__ = "Tally", Tally.__module__
    return [Renamed, Lower]


def test_a_retag_behind_a_snapshot_builds_it_anew(store: EventStore) -> None:
    store.append([subscribed("s1"), subscribed("s2"), subscribed("s9", "c9")])
    assert store.project(Tally("c1")).taken == 2
    store.retag([3], replace={"course": ["c9"]})
    assert reads(store, Tally("c1")) == (_tally(1), [4, 0])
    assert store.project(Tally("c9")).taken == 2
    store.append(subscribed("s3"))
    assert store.project(Tally("c1")).taken == 2


def _tally(taken: int) -> Tally:
    tally = Tally("c1")
    tally.taken = taken
    return tally


def test_own_appends_lead_to_snapshots_too(place: Place) -> None:
    with place.connect() as store:
        for _ in range(5):
            store.execute(add, Tally("c1"))
        found = store.engine.load_snapshot(f"{Tally.__module__}.Tally", "course:c1")
        assert found is not None
        assert (found.position, msgspec.json.decode(found.state)) == (4, {"taken": 4})
        with EventStore(store.engine) as other:
            assert reads(other, Tally("c1")) == (_tally(5), [4])


def test_a_state_that_json_would_change_is_not_kept_and_that_is_told(store: EventStore) -> None:
    store.append(subscribed("s1"))
    with pytest.warns(SnapshotFailed, match="does not come back from JSON as it was"):
        assert store.project(Odd("c1")).names == ("s1",)
    assert store.engine.load_snapshot(f"{Odd.__module__}.Odd", "course:c1") is None


class Mistyped(Projection, snapshot_every=1):
    id: CourseId
    taken: int = 0

    @on
    def subscribed(self, event: StudentSubscribed) -> None:
        self.taken = event.student  # type: ignore[assignment]


class Counts(Projection, snapshot_every=1):
    id: CourseId
    by_name: dict[str, int] = defaultdict(int)

    @on
    def subscribed(self, event: StudentSubscribed) -> None:
        self.by_name[event.student] += 1


@pytest.mark.parametrize("kind", [Mistyped, Counts])
def test_a_state_that_would_come_back_as_another_type_spoils_no_append(
    store: EventStore, kind: type[Projection]
) -> None:
    store.append(subscribed("s1"))
    with pytest.warns(SnapshotFailed, match="does not come back from JSON as it was"):
        store.project(kind("c1"))
    store.append(subscribed("s2"))
    with pytest.warns(SnapshotFailed):
        assert "s2" in str(store.project(kind("c1")))


def test_an_own_append_is_done_even_if_the_state_after_it_has_no_snapshot(place: Place) -> None:
    @command
    def mistype(mistyped: Mistyped) -> StudentSubscribed:
        return subscribed("s1", mistyped.id)

    with place.connect() as store, pytest.warns(SnapshotFailed):
        assert store.execute(mistype, Mistyped("c1")).position == 1


def test_a_boundary_by_hand_has_all_events_whatever_the_snapshot(store: EventStore) -> None:
    store.append([subscribed("s1"), subscribed("s2")])
    assert store.project(Tally("c1")).taken == 2
    with store.boundary(Tally("c1")) as b:
        assert [event.position for event in b.events] == [2, 3]
        assert b.states == (_tally(2),)


def test_a_snapshot_that_cannot_be_saved_spoils_no_decision(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    perform = store._perform

    def refusing(step: Any) -> Any:
        if isinstance(step, SaveSnapshot):
            raise Unavailable("the disk is full")
        return perform(step)

    monkeypatch.setattr(store, "_perform", refusing)
    store.append([subscribed("s1"), subscribed("s2")])
    with pytest.warns(SnapshotFailed, match="the disk is full"):
        assert store.execute(add, Tally("c1")).position == 4


def test_nonsense_in_the_place_of_a_snapshot_is_not_used(store: EventStore) -> None:
    store.append([subscribed("s1"), subscribed("s2")])
    store.project(Tally("c1"))
    kept = store.engine.load_snapshot(f"{Tally.__module__}.Tally", "course:c1")
    assert kept is not None
    for state in (b"no JSON", b'{"taken": "many"}'):
        newer = msgspec.structs.replace(kept, position=kept.position + 1, state=state)
        store.engine.save_snapshot(newer)
        store.append(subscribed("s3", "c2"))
        assert store.project(Tally("c1")).taken == 2


@pytest.mark.parametrize("every", [0, -1, True, "3"])
def test_wrong_numbers_are_refused_at_the_class(every: Any) -> None:
    with pytest.raises(InvalidInput, match="snapshot every"):
        type("Wrong", (Projection,), {}, snapshot_every=every)
    with pytest.raises(InvalidInput, match="snapshot every") as refused:
        type("Wrong", (Projection,), {}, snapshot_every=5, last_only=True)
    assert "last_only needs none" in refused.value.hint


def test_async_stores_use_the_same_snapshots(place: Place) -> None:
    async def main() -> None:
        async with place.connect_async() as store:
            await store.append([subscribed("s1"), subscribed("s2"), subscribed("s3")])
            assert (await store.project(Tally("c1"))).taken == 3
            found = await asyncio.to_thread(
                store.store.engine.load_snapshot, f"{Tally.__module__}.Tally", "course:c1"
            )
            assert found is not None
            assert found.position == 3

    asyncio.run(main())


COURSES = st.sampled_from(["c1", "c2"])
OPERATIONS = st.one_of(
    st.tuples(st.just("add"), COURSES),
    st.tuples(st.just("append"), COURSES),
    st.tuples(st.just("move"), COURSES, st.integers(1, 9)),
    st.tuples(st.just("look"), COURSES),
)


@settings(max_examples=150)
@given(st.lists(OPERATIONS, max_size=25), st.integers(0, 3))
def test_random_histories_come_out_as_without_snapshots(history: list[Any], cache: int) -> None:
    with strandline.connect("memory:", decision_cache=cache) as store:
        for operation, course, *rest in history:
            match operation:
                case "add":
                    store.execute(add, Tally(course))
                case "append":
                    store.append(subscribed("x", course))
                case "move" if rest[0] <= store.head() and store.count() and _is_users(store, rest[0]):
                    store.retag(rest, replace={"course": [course]})
                case "look":
                    store.project(Ledger(course))
            for name in ("c1", "c2"):
                taken = sum(
                    e.type == "StudentSubscribed" and f"course:{name}" in e.tags for e in store.read()
                )
                with EventStore(store.engine, decision_cache=0) as fresh:
                    assert fresh.project(Tally(name)).taken == taken
                    assert len(fresh.project(Ledger(name)).students) == taken


def _is_users(store: EventStore, position: int) -> bool:
    (event,) = store.read(after=position - 1, until=position)
    return not event.type.startswith("$")


class Paid(DomainEvent):
    course: CourseId
    amount: int
    name: str = ""


def paid(amount: int, name: str = "") -> Paid:
    return Paid(course=CourseId("c1"), amount=amount, name=name)


def above(limit: int, **options: Any) -> Any:
    class Above(Projection, snapshot_every=1, **options):
        id: CourseId
        total: int = 0

        @on
        def paid(self, event: Paid) -> None:
            if event.amount > limit:
                self.total += event.amount

    return Above


def above_constant(limit: int) -> Any:
    class Above(Projection, snapshot_every=1):
        limit_: ClassVar[int] = limit
        id: CourseId
        total: int = 0

        @on
        def paid(self, event: Paid) -> None:
            if event.amount > self.limit_:
                self.total += event.amount

    return Above


def above_asked(limit: int) -> Any:
    class Above(Projection, snapshot_every=1):
        id: CourseId
        total: int = 0

        @on
        def paid(self, event: Paid) -> None:
            if self.is_above(event.amount):
                self.total += event.amount

        def is_above(self, amount: int) -> bool:
            return amount > limit

    return Above


class Limit:
    def __init__(self, value: int) -> None:
        self.value = value


def above_class(limit: int) -> Any:
    kind = type("Kind", (Limit,), {"value": limit, "__init__": object.__init__})

    class Above(Projection, snapshot_every=1):
        id: CourseId
        total: int = 0

        @on
        def apply(self, event: Paid) -> None:
            if event.amount > kind.value:
                self.total += event.amount

    return Above


def above_handed_in(limit: int) -> Any:
    def is_above(amount: int) -> bool:
        return amount > limit

    class Above(Projection, snapshot_every=1):
        id: CourseId
        total: int = 0
        counts = staticmethod(is_above)

        @on
        def paid(self, event: Paid) -> None:
            if self.counts(event.amount):
                self.total += event.amount

    return Above


def above_in_brackets(limit: int) -> Any:
    class Above(Projection, snapshot_every=1):
        id: CourseId
        total: int = 0

        @on
        def paid(self, event: Paid) -> None:
            if event.amount in self:
                self.total += event.amount

        def __contains__(self, amount: int) -> bool:
            return amount > limit

    return Above


def above_set(limit: int) -> Any:
    class Above(Projection, snapshot_every=1):
        id: CourseId
        total: int = 0

        @property
        def next(self) -> int:
            return 0

        @next.setter
        def next(self, amount: int) -> None:
            self.total += amount if amount > limit else 0

        @on
        def paid(self, event: Paid) -> None:
            self.next = event.amount

    return Above


def above_by_choice(limit: int) -> Any:
    class Above(Projection, snapshot_every=1):
        id: CourseId
        total: int = 0

        @on
        def paid(self, event: Paid) -> None:
            if self.is_above(event.amount):
                self.total += event.amount

        if limit == 10:

            def is_above(self, amount: int) -> bool:
                return amount > 10

        else:

            def is_above(self, amount: int) -> bool:
                return amount > 100

    return Above


ABOVE = [
    above,
    above_constant,
    above_asked,
    above_class,
    above_handed_in,
    above_in_brackets,
    above_set,
    above_by_choice,
]


@pytest.mark.filterwarnings("ignore::strandline.SnapshotFailed")
@pytest.mark.parametrize("make", ABOVE)
def test_projections_of_one_function_do_not_take_each_others_snapshots(
    store: EventStore, make: Callable[[int], Any]
) -> None:
    store.append([paid(50), paid(500)])
    some, few = make(10), make(100)
    for _ in range(2):
        assert [store.project(each("c1")).total for each in (some, few)] == [550, 500]


def test_a_projection_that_a_function_made_has_no_snapshots_and_that_is_told_once(store: EventStore) -> None:
    store.append(paid(50))
    some = above(10)
    name = f"{some.__module__}.{some.__qualname__}"
    fix = r"above\.<locals>\.Above is kept: define it at the top of a module, or say version=…: classes that one"
    with pytest.warns(SnapshotFailed, match=fix) as told:
        assert store.project(some("c1")).total == 50
    assert [warning.filename for warning in told] == [__file__]
    assert store.engine.load_snapshot(name, "course:c1") is None
    store.engine.save_snapshot(Snapshot(name, "course:c1", version_of(some), 2, b'{"total":999}'))
    store.append(paid(60))
    state, taken = reads(store, some("c1"))
    assert (state.total, taken) == (110, [0])


def test_who_has_that_warning_raised_hears_it_each_time_but_not_after_an_append(place: Place) -> None:
    some = above(10)

    @command
    def pay(state: some) -> Paid:
        return paid(50)

    with place.connect() as store:
        assert store.execute(pay, some("c1")).position == 1
        other = EventStore(store.engine)
        for _ in range(2):
            with pytest.raises(SnapshotFailed):
                other.project(some("c1"))


def test_a_projection_of_a_function_that_states_its_version_has_the_snapshots_of_that_version(
    store: EventStore,
) -> None:
    store.append([paid(50), paid(500)])
    for limit, version, total in ((10, 1, 550), (100, 2, 500)):
        for after in (0, 3):
            state, taken = reads(store, above(limit, version=version)("c1"))
            assert (state.total, taken) == (total, [after])


def test_a_version_that_a_class_of_a_function_inherits_is_not_stated(store: EventStore) -> None:
    class Heir(Changed):
        step: ClassVar[int] = 10

    class Plain(Changed): ...

    store.append([subscribed("s1"), subscribed("s2")])
    with pytest.warns(SnapshotFailed, match="Heir is kept"):
        assert store.project(Heir("c1")).taken == 20
    assert store.project(Plain("c1")).taken == 20


def test_a_projection_inside_a_function_has_snapshots_if_no_other_of_its_name_can_differ(
    store: EventStore,
) -> None:
    class Amounts(Projection, snapshot_every=1):
        id: CourseId
        amounts: list[int] = []

        @on
        def paid(self, event: Paid) -> None:
            self.amounts.append(self.amount_of(event))

        @staticmethod
        def amount_of(event: Paid, factor: int | None = None) -> int:
            return event.amount * (factor or 1)

        @property
        def total(self) -> int:
            return sum(self.amounts)

    store.append([paid(50), paid(500)])
    for after in (0, 3):
        state, taken = reads(store, Amounts("c1"))
        assert (state.total, taken) == (550, [after])


@pytest.mark.filterwarnings("ignore::strandline.SnapshotFailed")
@pytest.mark.parametrize("options", [{}, {"version": 1}])
def test_an_append_is_done_and_told_whatever_the_handlers_refer_to(
    place: Place, options: dict[str, Any]
) -> None:
    if options is None:  # never: the handler below refers to what has no value
        least = 1

    class Sum(Projection, snapshot_every=1, **options):
        id: CourseId
        total: int = 0

        @on
        def paid(self, event: Paid) -> None:
            self.total += event.amount or least

    @command
    def pay(total: Sum) -> Paid:
        return paid(50)

    with place.connect() as store:
        assert store.execute(pay, Sum("c1")).position == 1
        with EventStore(store.engine) as other:
            assert other.project(Sum("c1")).total == 50


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("shown too early")


class Newest(Projection, snapshot_every=1):
    id: CourseId
    last: Any = None

    @on
    def paid(self, event: Paid) -> None:
        self.last = Unshowable()


@command
def renew(newest: Newest) -> Paid:
    return paid(1)


def test_an_append_is_done_and_told_even_if_the_state_after_it_cannot_be_shown(place: Place) -> None:
    with place.connect() as store, pytest.warns(SnapshotFailed, match=r"Newest\(CourseId\('c1'\)\) .* early"):
        assert store.execute(renew, Newest("c1")).position == 1


SCRIPT = """
import sys
others = [object() for _ in range(int(sys.argv[2]))]  # so that nothing has the address that it had before
import strandline
from strandline import *
class Id(TagId): ...
class Counted(DomainEvent):
    id: Id
    n: int
NOTHING = object()
handled = []
def plus(one, other): return one + other
{definition}
with strandline.connect(sys.argv[1]) as store:
    if not store.count():
        store.append([Counted(id=Id("a"), n=1), Counted(id=Id("a"), n=2)])
    print(store.project(Total("a")).total, len(handled))
"""
REFERRING = """
def make(add, start):
    class Total(Projection, snapshot_every=1, version=1):
        id: Id
        total: int = 0
        @on
        def counted(self, event: Counted) -> None:
            handled.append(start)
            self.total = add(self.total, event.n)
    return Total
Total = make(lambda one, other: plus(one, other), NOTHING)
"""
BEGINNING = """
class Total(Projection, snapshot_every=1):
    id: Id
    total: object = NOTHING
    @on
    def counted(self, event: Counted) -> None:
        handled.append(event)
        self.total = event.n if self.total is NOTHING else plus(self.total, event.n)
"""


@pytest.mark.parametrize("definition", [REFERRING, BEGINNING])
def test_functions_and_mere_objects_in_a_projection_are_the_same_in_every_process(
    tmp_path: Path, definition: str
) -> None:
    code = SCRIPT.format(definition=definition)
    seen = [
        subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "counts.db"), str(others)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for others in (0, 1000)
    ]
    assert seen == [["3", "2"], ["3", "0"]]


class Guests(Projection, snapshot_every=1):
    id: CourseId
    names: set[str] = set()

    @on
    def subscribed(self, event: StudentSubscribed) -> None:
        self.names.add(event.student)


class Visits(Projection, snapshot_every=1):
    id: CourseId
    names: dict[str, int] = {}

    @on
    def subscribed(self, event: StudentSubscribed) -> None:
        self.names[event.student] = self.names.get(event.student, 0) + 1


@pytest.mark.parametrize("kind", [Guests, Visits])
def test_a_state_whose_ids_would_come_back_as_text_is_not_kept_and_that_is_told(
    store: EventStore, kind: Any
) -> None:
    store.append(subscribed("s1"))
    with pytest.warns(SnapshotFailed, match="does not come back from JSON as it was"):
        store.project(kind("c1"))
    store.append(subscribed("s2"))
    with pytest.warns(SnapshotFailed):
        assert {type(name) for name in store.project(kind("c1")).names} == {StudentId}


class Undeclared(Projection, snapshot_every=1):
    id: CourseId

    @on
    def subscribed(self, event: StudentSubscribed) -> None:
        self.last = event.student


def test_a_state_with_what_is_no_field_is_not_kept_and_that_is_told(store: EventStore) -> None:
    store.append(subscribed("s1"))
    with pytest.warns(SnapshotFailed, match=r"its last is no field; declare it in the class: last: int = 0"):
        assert store.project(Undeclared("c1")).last == "s1"


class Students(Projection, snapshot_every=1):
    id: CourseId
    names: set[StudentId] = set()
    pairs: set[tuple[StudentId, int]] = set()
    groups: set[frozenset[StudentId]] = set()

    @on
    def subscribed(self, event: StudentSubscribed) -> None:
        self.pairs.add((event.student, len(self.names)))
        self.names.add(event.student)
        self.groups.add(frozenset(self.names))


def test_sets_of_ids_come_back_as_they_were(store: EventStore) -> None:
    store.append([subscribed("s1"), subscribed("s2")])
    first = store.project(Students("c1"))
    second, taken = reads(store, Students("c1"))
    assert (second, taken) == (first, [3])
    assert same(vars(second), vars(first))


S1 = StudentId("s1")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({S1}, {"s1"}),
        (frozenset({S1}), frozenset({"s1"})),
        ({frozenset({S1})}, {frozenset({"s1"})}),
        ({("a", (S1, 1))}, {("a", ("s1", 1))}),
        ({S1: 1}, {"s1": 1}),
        ({"a": 1, S1: 2}, {"a": 1, "s1": 2}),
        ({("a", S1): 1}, {("a", "s1"): 1}),
        ({"a": {S1}}, {"a": {"s1"}}),
        ({1, 2}, {True, 2}),
        ({1: "a"}, {True: "a"}),
    ],
)
def test_what_is_equal_but_of_another_type_is_not_the_same(one: Any, other: Any) -> None:
    assert one == other
    assert not same(one, other)
    assert not same(other, one)
    assert same(one, one)


@dataclass
class Sums:
    by_name: dict[str, int] = field(default_factory=lambda: defaultdict(int))


class Totals(Projection, snapshot_every=1):
    id: CourseId
    sums: Sums = Sums()

    @on
    def paid(self, event: Paid) -> None:
        self.sums.by_name[event.name] += event.amount


def test_what_a_dataclass_holds_is_compared_too(store: EventStore) -> None:
    store.append(paid(1, "ada"))
    with pytest.warns(SnapshotFailed, match="does not come back"):
        store.project(Totals("c1"))
    store.append(paid(2, "bob"))
    with pytest.warns(SnapshotFailed):
        assert store.project(Totals("c1")).sums.by_name == {"ada": 1, "bob": 2}


@command
def put(odd: Odd) -> StudentSubscribed:
    return subscribed(f"s{len(odd.names)}", odd.id)


def test_who_has_warnings_raised_still_hears_that_the_append_is_done(place: Place) -> None:
    with place.connect() as store, warnings.catch_warnings():
        warnings.simplefilter("error")
        done = store.execute(put, Odd("c1"))
        assert (done.position, store.head()) == (1, 1)


def test_a_set_among_the_defaults_is_the_same_in_every_process() -> None:
    code = """
from strandline import *
from strandline.domain.snapshot import version_of
class Id(TagId): ...
class Seen(DomainEvent):
    id: Id
class Roles(Projection, snapshot_every=1):
    id: Id
    names: set[str] = {"admin", "user", "guest"}
    groups: dict[str, frozenset[str]] = {"a": frozenset({"x", "y", "z"})}
    @on
    def seen(self, event: Seen) -> None: ...
print(version_of(Roles))
"""
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in range(3)
    }
    assert len(seen) == 1
