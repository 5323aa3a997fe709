"""The decision cache: a state that is kept is only a place to start from; no decision differs because of it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
from collections.abc import Generator, Iterator
from typing import Any
from uuid import UUID

import pytest
from enrolment import (
    CapacityChanged,
    Course,
    CourseDefined,
    CourseFull,
    CourseId,
    Invoices,
    Seats,
    Student,
    StudentId,
    StudentSubscribed,
    define,
    enroll,
    write_invoice,
)
from hypothesis import given, settings
from hypothesis import strategies as st

import strandline
from elsewhere import elsewhere
from places import Place
from strandline import (
    AppendConditionFailed,
    DomainEvent,
    Event,
    EventStore,
    InvalidInput,
    MissingTags,
    Projection,
    Query,
    SequencedEvent,
    command,
    on,
)
from strandline.domain.boundary import NEAR
from strandline.domain.member import Member
from strandline.domain.steps import Append, ReadEvents, Step
from strandline.testing import interfering, violations


@pytest.fixture
def store(place: Place) -> Iterator[EventStore]:
    with place.connect() as store:
        store.append(CourseDefined(course=CourseId("c1"), capacity=3))
        yield store


class Steps:
    """Notes what decisions ask of a store."""

    def __init__(self, store: EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken: list[Step] = []
        perform = store._perform

        def noted(step: Step) -> Any:
            self.taken.append(step)
            return perform(step)

        monkeypatch.setattr(store, "_perform", noted)

    def reads(self) -> list[int]:
        """The `after` of the reads since the last question."""
        found = [step.span.after for step in self.taken if isinstance(step, ReadEvents)]
        self.taken.clear()
        return found

    def appends(self) -> list[Append]:
        return [step for step in self.taken if isinstance(step, Append)]


@pytest.fixture
def steps(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> Steps:
    return Steps(store, monkeypatch)


class Places(Projection):
    """What `Course` is, without handlers that want to see the recorded event."""

    id: CourseId
    capacity: int = 0
    students: list[str] = []

    @on
    def changed(self, event: CourseDefined | CapacityChanged) -> None:
        self.capacity = event.capacity

    @on
    def subscribed(self, event: StudentSubscribed) -> None:
        self.students.append(event.student)


@command
def join(places: Places, student: str) -> Iterator[StudentSubscribed]:
    if len(places.students) >= places.capacity:
        raise CourseFull(places.id)
    yield subscribed(student, places.id)


class Locked(Projection):
    """Its state cannot be copied."""

    id: CourseId
    taken: int = 0
    lock: Any = None

    @on
    def subscribed(self, event: StudentSubscribed) -> None:
        self.taken += 1
        self.lock = threading.Lock()


@command
def take(locked: Locked) -> Iterator[StudentSubscribed]:
    yield subscribed(f"s{locked.taken}", locked.id)


def subscribed(student: str, course: str = "c1") -> StudentSubscribed:
    return StudentSubscribed(student=StudentId(student), course=CourseId(course))


def changed(capacity: int, course: str = "c1") -> CapacityChanged:
    return CapacityChanged(course=CourseId(course), capacity=capacity)


def test_a_state_is_read_once_and_then_only_what_is_newer(store: EventStore, steps: Steps) -> None:
    assert store.project(Course("c1")).capacity == 3
    assert steps.reads() == [0]
    store.append([Event("Other", {}), subscribed("s1")])
    assert store.project(Course("c1")).students == ["s1@3"]
    assert steps.reads() == [1]


def test_after_an_own_append_nothing_is_read_at_all(store: EventStore, steps: Steps) -> None:
    store.execute(join, Places("c1"), "s1")
    assert steps.reads() == [0]
    store.append(Event("Other", {}))
    executed = store.execute(join, Places("c1"), "s2")
    assert (executed.position, executed.attempts, steps.reads()) == (4, 1, [])
    assert store.project(Places("c1")).students == ["s1", "s2"]
    assert violations(store) == []


def test_a_handler_that_wants_the_recorded_event_gets_the_real_one(store: EventStore, steps: Steps) -> None:
    store.execute(enroll, Student("s1"), Course("c1"))
    steps.reads()
    store.execute(enroll, Student("s1"), Course("c1"))
    assert steps.reads() == [1]  # what is newer of the course; the student has what our own append proves
    assert store.project(Course("c1")).students == ["s1@2", "s1@3"]


def test_what_somebody_else_wrote_is_noticed_by_the_append(store: EventStore, steps: Steps) -> None:
    store.execute(join, Places("c1"), "s1")
    store.append([subscribed("x"), changed(2)])
    steps.reads()
    with pytest.raises(CourseFull):
        store.execute(join, Places("c1"), "s2")
    assert len(steps.appends()) == 1  # by a wrong guess, which was refused
    assert store.head() == 4


def test_what_others_wrote_behind_an_own_append_is_read_once(store: EventStore, steps: Steps) -> None:
    store.execute(join, Places("c1"), "s1")
    store.append([subscribed("s2"), subscribed("s3")])
    steps.reads()
    for _ in range(2):
        assert store.project(Places("c1")).students == ["s1", "s2", "s3"]
    assert steps.reads() == [2, 4]


def test_a_rule_that_refuses_on_what_is_out_of_date_is_asked_again(store: EventStore) -> None:
    for name in "abc":
        store.execute(join, Places("c1"), name)
    store.append(changed(4))
    assert store.execute(join, Places("c1"), "d").count == 1


def test_a_guess_that_was_refused_is_an_attempt(store: EventStore) -> None:
    store.execute(join, Places("c1"), "s1")
    store.append(changed(9))
    executed = store.execute(join.with_options(attempts=2), Places("c1"), "s2")
    assert (executed.count, executed.attempts) == (1, 2)


def test_who_has_one_attempt_makes_no_guess(store: EventStore) -> None:
    store.execute(join, Places("c1"), "s1")
    store.append(changed(9))
    executed = store.execute(join.with_options(attempts=1), Places("c1"), "s2")
    assert (executed.count, executed.attempts, store.stats().refused) == (1, 1, 0)


@pytest.mark.parametrize("attempts", [1, 3])
def test_a_command_is_called_as_often_as_it_may_decide(store: EventStore, attempts: int) -> None:
    calls = []

    @command
    def rush(places: Places) -> Iterator[StudentSubscribed]:
        calls.append(len(places.students))
        elsewhere(store.append, changed(9))  # somebody is faster each time
        yield subscribed("s2", places.id)

    store.execute(join, Places("c1"), "s1")
    with pytest.raises(AppendConditionFailed) as refused:
        store.execute(rush.with_options(attempts=attempts), Places("c1"))
    assert (len(calls), refused.value.attempts, store.stats().refused) == (attempts, attempts, attempts)


def test_a_try_that_led_to_nothing_is_an_attempt_too(store: EventStore) -> None:
    calls = []

    @command
    def refuse_first(places: Places) -> Iterator[StudentSubscribed]:
        calls.append(len(places.students))
        if len(calls) == 1:
            elsewhere(store.append, changed(9))
            raise CourseFull(places.id)
        yield subscribed("s2", places.id)

    store.execute(join, Places("c1"), "s1")
    assert store.execute(refuse_first.with_options(attempts=2), Places("c1")).attempts == 2
    assert calls == [1, 1]


def test_a_state_that_cannot_be_copied_is_not_used_after_a_function_had_it(store: EventStore) -> None:
    seen = []

    @command
    def change(places: Places, locked: Locked) -> Iterator[StudentSubscribed]:
        seen.append((len(places.students), locked.taken))
        locked.taken += 100
        if len(seen) == 1:
            elsewhere(store.append, subscribed("x"))
            raise CourseFull(places.id)
        yield subscribed("s2", places.id)

    store.append(subscribed("s9", "c9"))
    store.execute(join, Places("c1"), "s1")
    with pytest.raises(CourseFull):
        store.execute(change, Places("c1"), Locked("c9"))
    store.execute(change, Places("c1"), Locked("c9"))
    assert seen == [(1, 1), (2, 1)]


def test_a_rule_that_refuses_leaves_nothing_to_the_garbage_collector(store: EventStore) -> None:
    @command
    def refuse(places: Places) -> None:
        raise CourseFull(places.id)

    def execute() -> None:
        with contextlib.suppress(CourseFull):
            store.execute(refuse, Places("c1"))

    store.execute(join, Places("c1"), "s1")
    execute()
    gc.collect()
    gc.disable()
    try:
        for _ in range(20):
            execute()
        assert gc.collect() < 20
    finally:
        gc.enable()


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("what", ["raises", "nothing", "warns"])
def test_what_is_decided_without_an_append_is_decided_once_if_nothing_is_newer(
    store: EventStore, steps: Steps, what: str, keyed: bool
) -> None:
    calls = []

    @command
    def decide(places: Places) -> Iterator[StudentSubscribed]:
        calls.append(len(places.students))
        if what == "raises":
            raise CourseFull(places.id)
        if what == "warns":
            yield subscribed("s2", "c9")

    def execute() -> Any:
        with contextlib.ExitStack() as stack:
            if what == "raises":
                stack.enter_context(pytest.raises(CourseFull))
            elif what == "warns":
                stack.enter_context(pytest.warns(MissingTags))
            options = {"idempotency_key": f"k{len(calls)}"} if keyed else {}
            return store.execute(decide.with_options(**options), Places("c1"))

    store.execute(join, Places("c1"), "s1")
    steps.reads()
    done = execute()
    assert calls == [1]
    if what == "nothing":
        assert (done.count, done.position) == (0, store.head())
    store.append(Event("Other", {}))
    done = execute()
    assert calls == [1, 1]
    if what == "nothing":
        assert (done.count, done.position) == (0, store.head())
    store.append(subscribed("s3"))
    execute()
    assert calls == [1, 1, 1, 2]
    assert violations(store) == []


def test_nothing_to_do_on_what_is_out_of_date_is_decided_again(store: EventStore) -> None:
    @command
    def fill(places: Places) -> Iterator[StudentSubscribed]:
        for number in range(len(places.students), places.capacity):
            yield subscribed(f"f{number}", places.id)

    assert store.execute(fill, Places("c1")).count == 3
    store.append(changed(5))
    assert store.execute(fill, Places("c1")).count == 2
    idle = store.execute(fill, Places("c1"))
    assert (idle.count, idle.position) == (0, store.head())


def test_a_retag_behind_a_state_that_is_kept_builds_it_anew(store: EventStore) -> None:
    store.append([subscribed("s1"), subscribed("s2"), subscribed("s9", "c9")])
    assert store.project(Places("c1")).students == ["s1", "s2"]
    store.retag([2], replace={"course": ["c9"]})
    assert store.project(Places("c1")).students == ["s2"]
    assert store.project(Places("c9")).students == ["s1", "s9"]
    store.retag([4], replace={"course": ["c1"]})
    assert store.project(Places("c1")).students == ["s2", "s9"]


def test_a_retag_of_one_course_does_not_mix_it_with_another(store: EventStore) -> None:
    store.append([changed(5, "c2"), subscribed("s1"), subscribed("s2", "c2")])
    assert (store.project(Places("c1")).students, store.project(Places("c2")).students) == (["s1"], ["s2"])
    store.append([subscribed("s3"), subscribed("s4", "c2")])
    store.retag([4], replace={"course": ["c3"]})

    @command
    def look(courses: list[Places]) -> Generator[StudentSubscribed, None, list[list[str]]]:
        yield from ()
        return [course.students for course in courses]

    assert store.execute(look, [Places("c1"), Places("c2")]).value == [["s1", "s3"], ["s4"]]


def test_a_retag_behind_an_own_append_refuses_the_guess(store: EventStore) -> None:
    store.append(CourseDefined(course=CourseId("c2"), capacity=9))
    store.execute(join, Places("c1"), "s1")
    store.execute(join, Places("c2"), "s2")
    store.retag([4], replace={"course": ["c1"]})
    assert store.execute(join, Places("c1"), "s3").count == 1
    assert store.project(Places("c1")).students == ["s1", "s2", "s3"]
    with pytest.raises(CourseFull):
        store.execute(join, Places("c1"), "s4")
    assert violations(store) == []


def test_a_retag_from_one_projection_to_another_refuses_the_decision(store: EventStore) -> None:
    """What both find together is the same as before, but neither is what it was."""
    store.append([changed(9, "c2"), subscribed("s1")])

    @command
    def swap(gives: Places, takes: Places) -> Iterator[StudentSubscribed]:
        if "s1" not in gives.students:
            raise CourseFull
        yield subscribed("s1", takes.id)

    def move() -> None:
        store.retag([3], replace={"course": ["c2"]})

    with interfering(store, move), pytest.raises(CourseFull):
        store.execute(swap, Places("c1"), Places("c2"))
    assert (store.project(Places("c1")).students, store.project(Places("c2")).students) == ([], ["s1"])


def test_a_retag_inside_one_projection_that_enters_another_refuses_the_decision(store: EventStore) -> None:
    """An event of the student moves to the course: the student has it before and after."""
    store.append([subscribed("s1", "c9"), subscribed("s2"), subscribed("s3")])

    def move() -> None:
        store.retag([2], replace={"course": ["c1"]})

    with interfering(store, move), pytest.raises(CourseFull):
        store.execute(enroll, Student("s1"), Course("c1"))
    assert store.project(Course("c1")).taken == 3


def test_a_retag_of_any_tag_builds_a_state_anew_that_may_have_looked_at_it(store: EventStore) -> None:
    class Tags(Projection):
        id: CourseId
        seen: tuple[str, ...] = ()

        @on
        def defined(self, event: CourseDefined, recorded: SequencedEvent) -> None:
            self.seen = recorded.tags

    @command
    def note(tags: Tags) -> Event:
        return Event("Noted", {}, tags=[tags.id])

    store.execute(note, Tags("c1"))
    store.retag([1], add=["vip"])
    store.execute(note, Tags("c1"))
    assert store.project(Tags("c1")).seen == ("course:c1", "vip")


class Vips(Projection):
    id: CourseId
    tags: tuple[str, ...] = ()

    @on
    def defined(self, event: CourseDefined, recorded: SequencedEvent) -> None:
        self.tags = recorded.tags


class KeptVips(Vips, snapshot_every=1): ...


@pytest.mark.parametrize("kind", [Vips, KeptVips])
@pytest.mark.parametrize("cached", [True, False])
def test_a_retag_of_any_tag_refuses_a_decision_whose_handler_may_have_looked_at_it(
    store: EventStore, kind: type[Vips], *, cached: bool
) -> None:
    seen: list[tuple[str, ...]] = []

    @command
    def serve(course: kind) -> Event:  # type: ignore[valid-type]
        seen.append(course.tags)
        return Event("Served", {}, tags=[course.id])

    if cached:
        store.project(kind("c1"))
    with interfering(store, lambda: store.retag([1], add=["vip"])):
        assert store.execute(serve, kind("c1")).attempts == 2
    assert seen == [("course:c1",), ("course:c1", "vip")]
    assert store.project(kind("c1")).tags == ("course:c1", "vip")
    assert violations(store) == []


def test_a_retag_refuses_a_boundary_by_hand_that_may_have_looked_at_its_tags(store: EventStore) -> None:
    with contextlib.ExitStack() as block:
        boundary = block.enter_context(store.boundary(Places("c1")))
        assert [event.tags for event in boundary.events] == [("course:c1",)]
        store.retag([1], add=["vip"])
        boundary.append(subscribed("s2"))
        with pytest.raises(AppendConditionFailed):
            block.close()
    assert store.head() == 2


def test_an_event_that_does_not_conflict_is_in_the_next_decision(store: EventStore, steps: Steps) -> None:
    """It comes between the read and the append: the append proves nothing about it, so it is read."""
    seen = []

    @command
    def take_seat(seats: Seats) -> Iterator[StudentSubscribed]:
        seen.append((seats.capacity, seats.taken))
        if len(seen) == 1:
            elsewhere(store.append, changed(9))
        yield subscribed("s", seats.id)

    assert store.execute(take_seat, Seats("c1")).attempts == 1
    assert store.execute(take_seat, Seats("c1")).attempts == 1
    assert seen == [(3, 0), (9, 1)]
    assert steps.reads() == [0, 1]


def test_decisions_get_copies(store: EventStore) -> None:
    @command
    def spoil(places: Places) -> Iterator[StudentSubscribed]:
        yield subscribed("s1", places.id)
        places.students.append("nobody")
        places.capacity = 0

    store.execute(spoil, Places("c1"))
    assert store.project(Places("c1")).students == ["s1"]
    mine = store.project(Places("c1"))
    mine.students.clear()
    assert store.execute(join, Places("c1"), "s2").count == 1
    assert store.project(Places("c1")).students == ["s1", "s2"]


def test_a_commutative_command_reads_and_proves_nothing(store: EventStore, steps: Steps) -> None:
    @command(commutative=True)
    def add(places: Places, student: str) -> Iterator[StudentSubscribed]:
        yield subscribed(student, places.id)

    store.execute(join, Places("c1"), "s1")
    steps.reads()
    store.append(changed(4))
    store.execute(add, Places("c1"), "s2")
    assert steps.reads() == [2]
    assert store.project(Places("c1")).students == ["s1", "s2"]


def test_numbers_without_gaps_go_on(store: EventStore, steps: Steps) -> None:
    assert [store.execute(write_invoice, Invoices()).position for _ in range(3)] == [2, 3, 4]
    assert steps.reads() == [0]
    assert store.project(Invoices()).last == 3


def test_states_far_apart_are_read_apart(store: EventStore, steps: Steps) -> None:
    store.project(Student("s1"))
    store.append([Event("Other", {}) for _ in range(NEAR + 1)])
    store.project(Course("c1"))
    steps.reads()
    store.append(subscribed("s1"))
    store.execute(enroll, Student("s1"), Course("c1"))
    assert steps.reads() == [1, NEAR + 2]
    assert store.project(Student("s1")).courses == 2


def test_a_command_without_the_cache_reads_everything_each_time(place: Place) -> None:
    with place.connect(decision_cache=0) as store, pytest.MonkeyPatch.context() as patch:
        steps = Steps(store, patch)
        store.append(CourseDefined(course=CourseId("c1"), capacity=3))
        for name in "ab":
            store.execute(join, Places("c1"), name)
        assert steps.reads() == [0, 0]
        assert len(store.decisions) == 0


def test_the_cache_is_bounded_and_keeps_what_was_used_last(place: Place) -> None:
    with place.connect(decision_cache=2) as store, pytest.MonkeyPatch.context() as patch:
        steps = Steps(store, patch)
        store.append(Event("Other", {}))
        for name in ("a", "b", "a", "c"):
            store.project(Student(name))
        assert len(store.decisions) == 2
        steps.reads()
        for name in ("a", "c", "b"):
            store.project(Student(name))
        assert steps.reads() == [1, 1, 0]


def test_a_state_that_cannot_be_copied_is_not_kept(store: EventStore, steps: Steps) -> None:
    assert [store.execute(take, Locked("c1")).count for _ in range(3)] == [1, 1, 1]
    assert store.project(Locked("c1")).taken == 3


def test_a_state_that_cannot_be_copied_is_given_to_one_decision_only(store: EventStore) -> None:
    @command
    def spoil(locked: Locked, *, is_told: bool) -> Iterator[Event]:
        locked.taken += 100
        yield subscribed("s1", locked.id).to_event() if is_told else Event("Other", {}, tags=[locked.id])

    for number in range(1, 4):
        store.execute(spoil, Locked("c1"), is_told=True)
        store.execute(spoil, Locked("c1"), is_told=False)
        assert store.project(Locked("c1")).taken == number
    store.append(subscribed("s2"))
    assert store.project(Locked("c1")).taken == 4


def test_what_two_fields_share_they_share_in_copies_too(store: EventStore) -> None:
    class Roll(Projection):
        id: CourseId
        lines: list[list[str]] = []
        last: list[str] = []

        @on
        def subscribed(self, event: StudentSubscribed) -> None:
            self.last = [event.student]
            self.lines.append(self.last)

        @on
        def changed(self, event: CapacityChanged) -> None:
            self.last.append(str(event.capacity))

    store.append(subscribed("s1"))
    assert store.project(Roll("c1")).lines == [["s1"]]
    store.append(changed(7))
    assert store.project(Roll("c1")).lines == [["s1", "7"]]


def test_a_handler_that_changes_the_key_is_refused(store: EventStore) -> None:
    class Moving(Projection):
        id: CourseId

        @on
        def subscribed(self, event: StudentSubscribed) -> None:
            self.id = CourseId("c2")

    @command
    def move(moving: Moving) -> StudentSubscribed:
        return subscribed("s1", moving.id)

    assert store.execute(move, Moving("c1")).count == 1
    for _ in range(2):
        with pytest.raises(InvalidInput, match="a handler of Moving changed its key") as refused:
            store.project(Moving("c1"))
        assert "a field with a default" in refused.value.hint
    assert store.project(Moving("c2")).id == "c2"


def test_an_own_event_that_cannot_be_folded_does_not_undo_the_append(store: EventStore) -> None:
    @command
    def broken(places: Places) -> Event:
        return Event("CapacityChanged", {"course": "c1", "capacity": "many"}, tags=[places.id])

    assert store.execute(broken, Places("c1")).count == 1
    with pytest.raises(strandline.InvalidEvent, match="capacity"):
        store.project(Places("c1"))


def test_the_last_error_still_tells_of_a_conflict(store: EventStore) -> None:
    store.execute(join, Places("c1"), "s1")

    @command
    def late(places: Places) -> Iterator[StudentSubscribed]:
        elsewhere(store.append, changed(9))
        yield subscribed("s2", places.id)

    with pytest.raises(AppendConditionFailed) as caught:
        store.execute(late.with_options(attempts=2), Places("c1"))
    assert caught.value.attempts == 2


def as_of(head: int, state: Projection, *, is_own: bool = False) -> Member:
    member = Member.begin(state)
    member.start_with(state, head)
    member.is_own = is_own
    return member


def test_a_log_that_lost_its_end_is_read_from_the_start(store: EventStore) -> None:
    """As after the restore of a backup: the state that is kept knows more than the log."""
    ahead = Places("c1")
    ahead.students.append("of another past")
    store.decisions._keep(as_of(9, ahead, is_own=True))
    store.execute(join, Places("c1"), "s2")
    assert store.project(Places("c1")).students == ["s2"]
    store.decisions._keep(as_of(9, ahead))
    assert store.project(Places("c1")).students == ["s2"]


def test_two_stores_on_one_log_never_sell_a_seat_twice(kept: Place) -> None:
    sold: list[str] = []

    def sell(store: EventStore, name: str) -> None:
        for number in range(15):
            try:
                store.execute(join.with_options(attempts=60), Places(f"c{number % 2}"), f"{name}{number}")
            except CourseFull:
                continue
            sold.append(name)

    with kept.connect() as one, kept.connect() as two:
        for number in range(2):
            one.execute(define, Course(f"c{number}"), 6)
        threads = [
            threading.Thread(target=sell, args=(store, name))
            for name, store in zip("abcd", [one, two] * 2, strict=False)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(sold) == 12
        for store in (one, two):
            assert [len(store.project(Places(f"c{number}")).students) for number in range(2)] == [6, 6]
        assert violations(one) == []


def test_async_stores_share_the_cache(place: Place) -> None:
    async def main() -> None:
        async with place.connect_async() as store:
            await store.append(CourseDefined(course=CourseId("c1"), capacity=4))
            buys = [store.execute(join.with_options(attempts=60), Places("c1"), f"s{n}") for n in range(9)]
            outcomes = await asyncio.gather(*buys, return_exceptions=True)
            assert sum(isinstance(outcome, CourseFull) for outcome in outcomes) == 5
            assert len((await store.project(Places("c1"))).students) == 4

    asyncio.run(main())


COURSES = st.sampled_from(["c1", "c2"])
STUDENTS = st.sampled_from(["s1", "s2", "s3"])
OPERATIONS = st.one_of(
    st.tuples(st.just("join"), COURSES, STUDENTS),
    st.tuples(st.just("enroll"), COURSES, STUDENTS),
    st.tuples(st.just("seat"), COURSES, STUDENTS),
    st.tuples(st.just("change"), COURSES, st.integers(0, 6)),
    st.tuples(st.just("move"), st.integers(1, 12), COURSES),
    st.tuples(st.just("project"), COURSES, STUDENTS),
    st.tuples(st.just("number"), COURSES, STUDENTS),
)


@command
def take_seat(seats: Seats, student: str) -> Iterator[DomainEvent]:
    if seats.taken < seats.capacity:
        yield subscribed(student, seats.id)


@settings(max_examples=150)
@given(st.lists(st.tuples(st.booleans(), OPERATIONS), max_size=25))
def test_random_histories_come_out_as_without_a_cache(history: list[tuple[bool, Any]]) -> None:
    """Two stores with caches on one log, against one without: every answer is the same."""

    def answer(store: EventStore, operation: str, one: Any, two: Any) -> Any:
        try:
            match operation:
                case "join":
                    return store.execute(join, Places(one), two).count
                case "enroll":
                    return store.execute(enroll, Student(two), Course(one)).count
                case "seat":
                    return store.execute(take_seat, Seats(one), two).count
                case "change":
                    return store.append(changed(two, one)).count
                case "move":
                    return store.retag([one], replace={"course": [two]}).count if one <= store.head() else 0
                case "number":
                    return store.execute(write_invoice, Invoices()).count
            return [
                store.project(p) for p in (Places(one), Course(one), Seats(one), Student(two), Invoices())
            ]
        except (CourseFull, InvalidInput) as refused:
            return str(refused)

    plain = strandline.connect("memory:", decision_cache=0)
    with strandline.connect("memory:") as left, EventStore(left.engine) as right, plain:
        for store in (left, plain):
            store.append([changed(3), changed(2, "c2")])
        for is_right, operation in history:
            assert answer(right if is_right else left, *operation) == answer(plain, *operation)
        assert [event.data for event in left.read()] == [event.data for event in plain.read()]
        assert left.count(Query.all()) == plain.head()
        assert violations(left) == []


class Once(Projection):
    """One whose handler raises when it meets what its history cannot have."""

    id: CourseId
    is_defined: bool = False

    @on
    def defined(self, event: CourseDefined) -> None:
        assert not self.is_defined
        self.is_defined = True


def test_a_state_that_a_retag_misled_does_not_meet_the_events_that_are_right_without_it(
    store: EventStore,
) -> None:
    assert store.project(Once("c1")).is_defined
    store.retag(Query.tag("course:c1"), replace={"course": ["c2"]})
    store.append(CourseDefined(course=CourseId("c1"), capacity=1))
    assert store.project(Once("c1")).is_defined
    assert store.project(Once("c2")).is_defined


PAID = UUID("0190a0a0-0000-7000-8000-000000000000")


@command
def join_under_one_id(places: Places) -> Iterator[Event]:
    if not places.students:
        yield subscribed("s1", places.id).to_event(id=PAID)


def test_an_id_that_somebody_else_has_used_meanwhile_is_decided_about_again(store: EventStore) -> None:
    store.execute(raise_capacity, Places("c1"))
    store.append(Event("Other", {}, id=PAID))
    store.append(subscribed("s2"))
    assert store.execute(join_under_one_id, Places("c1")).count == 0


@command
def raise_capacity(places: Places) -> Iterator[CapacityChanged]:
    yield changed(places.capacity + 1, places.id)
