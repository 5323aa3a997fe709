"""Commands on every engine: the signature of a function is its consistency boundary."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from enrolment import (
    CapacityChanged,
    Course,
    CourseDefined,
    CourseFull,
    CourseId,
    Enrollment,
    Invoices,
    InvoiceWritten,
    Seats,
    Student,
    StudentId,
    StudentSubscribed,
    define,
    enroll,
    enroll_in_all,
    join,
    when,
    write_invoice,
)

import strandline
from places import Place
from strandline import (
    AppendConditionFailed,
    AppendResult,
    DomainEvent,
    Event,
    EventStore,
    InvalidEvent,
    InvalidInput,
    InvalidQuery,
    Projection,
    Query,
    TagId,
    command,
    on,
)
from strandline.domain.drive import drive
from strandline.domain.steps import ReadEvents
from strandline.domain.unit import Boundary
from strandline.testing import ManualClock, interfering, violations

MISSING = object()


@pytest.fixture
def store(place: Place) -> Iterator[EventStore]:
    with place.connect() as store:
        store.append(CourseDefined(course=CourseId("c1"), capacity=2))
        yield store


def subscribed(student: str, course: str = "c1") -> StudentSubscribed:
    return StudentSubscribed(student=StudentId(student), course=CourseId(course))


def test_a_command_reads_folds_decides_and_appends(store: EventStore) -> None:
    executed = store.execute(enroll, Student("s1"), Course("c1"))
    assert (executed.position, executed.count, executed.attempts) == (2, 1, 1)
    assert store.execute(enroll, student="s2", course="c1").position == 3  # type: ignore[arg-type]
    with pytest.raises(CourseFull):
        store.execute(enroll, Student("s3"), Course("c1"))
    course = store.project(Course("c1"))
    assert (course.exists, course.taken, course.students) == (True, 2, ["s1@2", "s2@3"])
    assert store.project(Student, "s1").courses == 1
    assert store.project(Enrollment("s1", "c1")).exists
    assert not store.project(Enrollment("s1", "c2")).exists
    assert violations(store) == []


def test_the_boundary_is_the_union_of_the_parameters(store: EventStore) -> None:
    store.execute(enroll, Student("s1"), Course("c1"))
    *_, append = store.appends()
    assert append.condition is not None
    items = {(item.types, item.tags) for item in append.condition.fail_if_events_match.items}
    assert items == {
        (("StudentSubscribed",), ("student:s1",)),
        (("CapacityChanged", "CourseDefined", "StudentSubscribed"), ("course:c1",)),
    }
    assert append.condition.after == 1


def test_the_same_projection_twice_is_one_part_of_the_condition(store: EventStore) -> None:
    @command
    def compare(one: Course, other: Course) -> CapacityChanged:
        assert one == other
        assert one is not other
        return CapacityChanged(course=one.id, capacity=1)

    for _ in range(2):
        store.execute(compare, Course("c1"), Course("c1"))
        *_, append = store.appends()
        assert append.condition is not None
        assert len(append.condition.parts) == 1


def test_an_event_is_folded_only_where_its_own_item_matches(store: EventStore) -> None:
    store.append([subscribed("s1"), subscribed("s1", "c2"), subscribed("s2", "c2")])
    with store.boundary(Student("s1"), Course("c1"), Course("c2"), Enrollment("s2", "c1")) as b:
        student, first, second, enrollment = b.states
        assert (student.courses, first.taken, second.taken, enrollment.exists) == (2, 1, 2, False)
        assert [event.position for event in b.events] == [1, 2, 3, 4]


def test_a_command_that_yields_nothing_writes_nothing(store: EventStore) -> None:
    executed = store.execute(define, Course("c1"), 5)
    assert (executed.count, executed.position, store.head()) == (0, 1, 1)
    assert store.execute(define, Course("c2"), capacity=5).count == 1


def test_a_generator_may_return_a_value(store: EventStore) -> None:
    store.append(CourseDefined(course=CourseId("c2"), capacity=0))
    executed = store.execute(enroll_in_all, Student("s1"), [Course("c1"), Course("c2")])
    assert (executed.value, executed.count) == (1, 1)
    assert store.execute(enroll_in_all, Student("s1"), []).value == 0


def test_numbers_without_gaps_need_only_the_newest_event(store: EventStore) -> None:
    for _ in range(3):
        store.execute(write_invoice, Invoices())
    assert store.project(Invoices()).last == 3
    *_, append = store.appends()
    assert append.condition is not None
    assert append.condition.fail_if_events_match == Query.types("InvoiceWritten")


def test_now_is_by_the_clock_that_events_are_recorded_by(place: Place) -> None:
    with place.connect() as store:
        before = store.execute(when, Course("c1"))
        (event,) = store.read(Query.types("CapacityChanged"))
        assert before.value is not None
        assert abs(event.recorded_at - before.value) < timedelta(seconds=10)


def test_now_on_postgres_is_the_databases(postgres: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with postgres.connect() as store:
        monkeypatch.setattr("time.time_ns", lambda: 0)
        assert store.execute(when, Course("c1")).value > datetime(2020, 1, 1, tzinfo=UTC)


def test_now_is_the_time_of_the_stores_clock(place: Place) -> None:
    clock = ManualClock(datetime(2026, 1, 2, tzinfo=UTC))
    with place.connect(clock=clock) as store:
        assert store.execute(when, Course("c1")).value == datetime(2026, 1, 2, tzinfo=UTC)


def sign_up(course: Course, student: str) -> Iterator[StudentSubscribed]:
    yield subscribed(student, course.id)


def test_a_conflict_is_decided_again_on_what_is_new(store: EventStore) -> None:
    with interfering(store, subscribed("x"), subscribed("y")):
        executed = store.execute(command(sign_up), Course("c1"), "s1")
    assert (executed.attempts, executed.position) == (3, 4)
    assert store.project(Course("c1")).taken == 3


def test_pauses_between_attempts_are_random_parts_of_one_that_doubles(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("strandline.store.time", SimpleNamespace(sleep=pauses.append))
    decide = command(sign_up).with_options(attempts=12)
    for _ in range(20):
        with (
            interfering(store, *map(subscribed, "abcdefghijklm")),
            pytest.raises(AppendConditionFailed),
        ):
            store.execute(decide, Course("c1"), "s1")
    assert len(pauses) == 20 * 11
    for attempt in range(11):
        longest = min(0.25, 0.002 * 2**attempt)
        drawn = pauses[attempt::11]
        assert 0 <= min(drawn) < longest / 2 < max(drawn) <= longest
        assert len(set(drawn)) == 20


def test_attempts_are_bounded_and_the_last_error_tells(store: EventStore) -> None:
    decide = command(sign_up).with_options(attempts=3)
    with interfering(store, *map(subscribed, "abcdef")), pytest.raises(AppendConditionFailed) as caught:
        store.execute(decide, Course("c1"), "s1")
    assert caught.value.attempts == 3
    assert caught.value.conflict.position == 4


def test_an_event_that_does_not_conflict_spoils_nothing(store: EventStore) -> None:
    @command
    def take_seat(seats: Seats) -> Iterator[StudentSubscribed]:
        yield subscribed("s1", seats.id)

    with interfering(store, CapacityChanged(course=CourseId("c1"), capacity=9)) as rivals:
        assert store.execute(take_seat, Seats("c1")).attempts == 1
    assert rivals.used == 1
    assert store.project(Seats("c1")).capacity == 9


class Plain(Projection):
    """Its fields have names that a library might want for itself."""

    key: CourseId
    item: int = 0
    version: int = 0
    copy: str = ""
    head: int = 0
    last_only: bool = False

    @on
    def changed(self, event: CourseDefined | CapacityChanged) -> None:
        self.version += 1
        self.item, self.copy = event.capacity, "of it"


def test_the_fields_of_a_projection_are_its_own(store: EventStore) -> None:
    @command
    def change(plain: Plain) -> CapacityChanged:
        return CapacityChanged(course=plain.key, capacity=plain.item + 1)

    for _ in range(3):
        store.execute(change, Plain("c1"))
    plain = store.project(Plain("c1"))
    assert (plain.key, plain.version, plain.item, plain.copy) == ("c1", 4, 5, "of it")
    assert (plain.head, plain.last_only) == (0, False)


class Broken(Projection):
    id: CourseId

    @on
    def changed(self, event: CourseDefined | CapacityChanged) -> None:
        self._refuse(event)

    def _refuse(self, event: DomainEvent) -> None:
        raise KeyError(event)


def test_an_error_of_a_handler_tells_which_event_it_was(store: EventStore) -> None:
    with pytest.raises(KeyError) as caught:
        store.project(Broken("c1"))
    assert caught.value.__notes__ == ["while Broken took event 1, a CourseDefined"]


class LooseCourse(Course):
    @on(conflicts=False)
    def subscribed(self, event: StudentSubscribed) -> None: ...


def test_a_subclass_does_not_loosen_the_boundary_of_the_signature(store: EventStore) -> None:
    with pytest.raises(InvalidInput, match="course is a Course, not a LooseCourse"):
        store.execute(enroll, Student("s1"), LooseCourse("c1"))


def test_a_commutative_command_is_refused_only_by_what_it_guards(store: EventStore) -> None:
    assert store.execute(join, Course("c1"), "s1").count == 1
    change = CapacityChanged(course=CourseId("c1"), capacity=1)
    with interfering(store, subscribed("x"), subscribed("y"), change) as rivals:
        assert store.execute(command(commutative=True)(sign_up), Course("c1"), "s2").attempts == 1
        assert store.execute(join, Course("c1"), "s3").attempts == 1
        assert store.execute(join, Course("c1"), "s4").attempts == 2
    assert rivals.used == 3


def test_metadata_of_the_command_goes_to_its_events(store: EventStore) -> None:
    options = enroll.with_options(metadata={"correlation_id": "k1"})
    store.execute(options, Student("s1"), Course("c1"))
    (event,) = store.read(Query.types("StudentSubscribed"))
    assert event.metadata == {"correlation_id": "k1"}


def late(store: EventStore) -> None:
    with store.boundary(Course("c1")) as b:
        store.append(subscribed("s3"))
        b.append(subscribed("s4"))


def broken(store: EventStore) -> None:
    with store.boundary(Course("c1")) as b:
        b.append(subscribed("s5"))
        _ = 1 / 0


def test_a_boundary_that_is_tried_again_begins_anew(store: EventStore) -> None:
    b = store.boundary(Course("c1"))
    with interfering(store, subscribed("x")), pytest.raises(AppendConditionFailed), b:
        b.append(subscribed("s1"))
    with b:
        assert (b.states[0].taken, [event.position for event in b.events]) == (1, [1, 2])
        b.append(subscribed("s2"))
    with b:
        assert b.result is None
    assert (b.result, store.head()) == (AppendResult(3, 3, 0), 3)


def test_a_boundary_by_hand_appends_once_under_its_condition(store: EventStore) -> None:
    with store.boundary(Course("c1"), Student("s1")) as b:
        assert (b.head, b.states[0].capacity) == (1, 2)
        b.append(subscribed("s1"), subscribed("s2"))
    assert b.result is not None
    assert (b.result.first, b.result.count) == (2, 2)
    with pytest.raises(AppendConditionFailed):
        late(store)
    with pytest.raises(ZeroDivisionError):
        broken(store)
    assert store.head() == 4
    with store.boundary(Course("c1")) as idle:
        pass
    assert idle.result is not None
    assert (idle.result.count, idle.result.position) == (0, 4)
    with pytest.raises(InvalidInput, match="not open"):
        idle.append(subscribed("s6"))


def test_many_threads_never_sell_a_seat_twice(store: EventStore) -> None:
    sold: list[int] = []

    def buy(number: int) -> None:
        try:
            store.execute(enroll.with_options(attempts=50), Student(f"s{number}"), Course("c1"))
        except CourseFull:
            return
        sold.append(number)

    threads = [threading.Thread(target=buy, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(sold) == store.project(Course("c1")).taken == 2
    assert violations(store) == []


def test_async_stores_do_the_same(place: Place) -> None:
    async def main() -> None:
        async with place.connect_async() as store:
            await store.append(CourseDefined(course=CourseId("c1"), capacity=2))
            buys = [
                store.execute(enroll.with_options(attempts=50), Student(f"s{n}"), Course("c1"))
                for n in range(6)
            ]
            outcomes = await asyncio.gather(*buys, return_exceptions=True)
            assert sum(isinstance(outcome, CourseFull) for outcome in outcomes) == 4
            assert (await store.project(Course("c1"))).taken == 2
            async with store.boundary(Course("c1")) as b:
                b.append(CapacityChanged(course=b.states[0].id, capacity=3))
            assert b.result is not None
            assert b.result.position == 4

    asyncio.run(main())


def test_an_open_boundary_is_not_entered_by_another_task(place: Place) -> None:
    async def main() -> None:
        async with place.connect_async() as store:
            boundary = store.boundary(Course("c1"))

            async def define(capacity: int) -> int:
                async with boundary:
                    boundary.append(CourseDefined(course=CourseId("c1"), capacity=capacity))
                    await asyncio.sleep(0.01)
                return capacity

            outcomes = await asyncio.gather(define(1), define(2), return_exceptions=True)
            assert outcomes[0] == 1
            assert isinstance(outcomes[1], InvalidInput)
            assert boundary.result is not None
            assert (boundary.result.count, await store.head()) == (1, 1)

    asyncio.run(main())


def test_nothing_is_decided_on_before_the_read_is_done(store: EventStore) -> None:
    def take(steps: Any) -> None:
        def perform(step: Any) -> Any:
            if isinstance(step, ReadEvents):
                for use in (lambda: boundary.append(define), lambda: boundary.states):
                    with pytest.raises(InvalidInput, match="the boundary is not open"):
                        use()
            return store._perform(step)

        drive(steps, perform)

    define = CourseDefined(course=CourseId("c1"), capacity=1)
    boundary = Boundary(take, [Course("c1")])
    for _ in range(2):
        with boundary:
            boundary.append(define)
        assert boundary.result is not None
        assert boundary.result.count == 1


def test_a_boundary_whose_read_failed_can_be_entered_again(store: EventStore) -> None:
    store.append(Event("CourseDefined", b"?", tags=["course:c1"]))
    boundary = store.boundary(Course("c1"))
    for _ in range(2):
        with pytest.raises(InvalidEvent), boundary:
            pass


class OtherCourseId(TagId, prefix="course"): ...


class Other(Projection):
    id: OtherCourseId

    @on
    def written(self, event: InvoiceWritten) -> None: ...


def test_mistakes_in_calls_say_what_to_change(store: EventStore) -> None:
    with pytest.raises(InvalidInput, match="missing a required argument"):
        store.execute(enroll, Student("s1"))  # type: ignore[call-arg]
    with pytest.raises(InvalidInput, match="is a Student, not a Course"):
        store.execute(enroll, Course("c1"), Course("c1"))  # type: ignore[arg-type]
    with (
        pytest.raises(InvalidInput, match="both have the tag prefix"),
        store.boundary(Course("c1"), Other("c1")),
    ):
        pass
    with pytest.raises(InvalidQuery, match="depends on nothing"), store.boundary():
        pass
    with pytest.raises(InvalidInput, match="consists of projections"):
        store.boundary("c1")

    with pytest.raises(InvalidInput, match="projections are a list"):
        store.execute(enroll_in_all, "s1", "c1")  # type: ignore[arg-type]
    for no_command, hint in (
        (subscribed, "@command above"),
        (enroll(Student("s1"), Course("c1")), "command itself"),
    ):
        with pytest.raises(InvalidInput, match="is no command") as caught:
            store.execute(no_command, "s1")  # type: ignore[arg-type]
        assert hint in caught.value.hint
    with pytest.raises(InvalidInput, match="unexpected keyword argument 'idempotency_key'") as caught:
        store.execute(enroll, Student("s1"), Course("c1"), idempotency_key="k1")  # type: ignore[call-arg]
    assert "enroll.with_options(idempotency_key=…)" in caught.value.hint
    with pytest.raises(InvalidInput, match="a class and a key"):
        store.project(Course("c1"), "c2")
    with pytest.raises(InvalidInput, match="a class and a key"):
        store.project("c1")  # type: ignore[type-var]
    for wrong in (lambda: Course(), lambda: Course("c1", "c2")):  # noqa: PLW0108
        with pytest.raises(InvalidInput, match="is built from"):
            wrong()
    with pytest.raises(InvalidInput, match="attempts"):
        enroll.with_options(attempts=0)
    assert store.head() == 1


def gives(what: Any) -> Any:
    @command
    def decide(course: Course) -> Any:
        return what

    return decide


@pytest.mark.parametrize("what", [7, "text", [Course("c1")], {"type": "A"}])
def test_what_is_no_event_is_not_written(what: Any) -> None:
    with strandline.connect("memory:") as store:
        with pytest.raises(InvalidEvent, match="where an event belongs"):
            store.execute(gives(what), Course("c1"))
        assert store.head() == 0


def test_projections_of_one_class_share_no_state() -> None:
    one, other = Course("c1"), Course("c1")
    one.students.append("s1")
    assert (other.students, Course("c2").students) == ([], [])
    assert one != other
    assert repr(Student("s1")) == "Student(id=StudentId('s1'), courses=0)"


class Sometimes(Projection):
    id: CourseId
    title: object = MISSING
    seen: int = 0

    @on
    def defined(self, event: CourseDefined) -> None:
        self.seen += 1


def test_a_value_that_means_that_there_is_none_is_that_value() -> None:
    assert Sometimes("c1").title is MISSING


def test_what_a_projection_does_not_handle_changes_nothing(store: EventStore) -> None:
    store.append([Event("Other", {}, tags=["course:c1"]), CourseDefined(course=CourseId("c1"), capacity=1)])
    state = Sometimes("c1")
    for event in store.read(Query.tag("course:c1")):
        state.apply(event)
    assert state.seen == store.project(Sometimes("c1")).seen > 0


@command
def define_for_somebody(course: Course) -> Event:
    defined = CourseDefined(course=course.id, capacity=1)
    return defined.to_event(metadata={"correlation_id": "its own", "user": "ada"})


def test_what_an_event_says_of_itself_is_not_lost_to_what_its_command_says(store: EventStore) -> None:
    (cause,) = store.read(backwards=True, limit=1)
    done = store.execute(define_for_somebody.caused_by(cause), Course("new"))
    (written,) = store.read(after=done.first - 1)
    assert written.metadata == {
        "causation_id": str(cause.id),
        "correlation_id": "its own",
        "user": "ada",
    }


def test_a_list_without_projections_is_refused_alike_whatever_the_store_has_kept(store: EventStore) -> None:
    store.execute(define, Course("c2"), 1)
    with pytest.raises(InvalidQuery, match="a decision without projections depends on nothing"):
        store.execute(define_all, [])


@command
def define_all(courses: list[Course]) -> Iterator[CourseDefined]:
    for course in courses:
        yield CourseDefined(course=course.id, capacity=1)
