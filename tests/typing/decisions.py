"""Decisions as users write them; `make check` holds it against mypy and pyright, both strict. Not run, only read.

A line with both comments, `type: ignore` and `pyright: ignore`, is wrong: each checker has to find it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from datetime import datetime
from typing import assert_type
from uuid import UUID

from strandline import (
    NOW,
    AppendResult,
    AsyncEventStore,
    Command,
    Decision,
    DomainEvent,
    Event,
    EventStore,
    Executed,
    Projection,
    Query,
    QueryItem,
    SequencedEvent,
    TagId,
    command,
    connect,
    connect_async,
    on,
    upcast,
)


class CourseId(TagId): ...


class StudentId(TagId, prefix="pupil"): ...


class OddId(TagId, prefix=7): ...  # type: ignore[arg-type]  # pyright: ignore[reportGeneralTypeIssues, reportArgumentType]


class CourseDefined(DomainEvent, type="course-defined", stream="course"):
    course: CourseId
    capacity: int = 0


class Renamed(DomainEvent, version=2):
    course: CourseId
    others: list[CourseId] = []
    by: StudentId | None = None

    @staticmethod
    @upcast(1)
    def _named(data: dict[str, object]) -> dict[str, object]:
        return data


class Unversioned(DomainEvent, version="2"):  # pyright: ignore[reportArgumentType]  (mypy does not look)
    number: int


class Course(Projection):
    id: CourseId
    capacity: int = 0

    @on
    def defined(self, event: CourseDefined) -> None:
        self.capacity = event.capacity

    @on
    def changed(self, event: CourseDefined | Renamed, recorded: SequencedEvent) -> None: ...


class Numbers(Projection, last_only=True):
    last: int = 0

    @on(CourseDefined, conflicts=False)
    def defined(self, event: CourseDefined, recorded: SequencedEvent) -> None:
        self.last = recorded.position

    @on(Course)  # type: ignore[type-var, arg-type]  # pyright: ignore
    def wrong(self, event: CourseDefined) -> None: ...


@command
def define(course: Course, capacity: int) -> Iterator[CourseDefined]:
    yield CourseDefined(course=course.id, capacity=capacity)


@command
def count(courses: list[Course], now: datetime = NOW) -> Generator[CourseDefined, None, int]:
    yield CourseDefined(course=courses[0].id)
    return len(courses)


@command(commutative=True, guard=[CourseDefined])
def touch(course: Course) -> CourseDefined:
    return CourseDefined(course=course.id)


@command(commutative=True)
def number(numbers: Numbers) -> Generator[Event, None, str]:
    yield Event("Numbered", {})
    return "done"


@command
def maybe(course: Course) -> list[Event | DomainEvent] | None:
    return [CourseDefined(course=course.id).with_tags("vip")] if course.capacity else None


@command  # type: ignore[arg-type]  # pyright: ignore
def of_text(course: Course) -> Iterator[str]:
    yield course.id


@command(commutative=True, guard=[Course])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
def guarded(course: Course) -> Iterator[CourseDefined]:
    yield CourseDefined(course=course.id)


def ids() -> None:
    assert_type(CourseId("c1").tag, str)
    assert_type(CourseId(7), CourseId)
    assert_type(CourseId(UUID(int=1)), CourseId)
    CourseId(1.5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    CourseId()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def events() -> None:
    CourseDefined(CourseId("c1"), 3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    CourseDefined(course=CourseId("c1"), capacity="many")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    CourseDefined(course="c1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    CourseDefined(course=StudentId("s1"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    CourseDefined(capacity=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    CourseDefined(course=CourseId("c1"), seats=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    event = CourseDefined(course=CourseId("c1"))
    event.capacity = 3  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    assert_type(event.course.tag, str)
    assert_type(event.with_tags("vip", StudentId("s1")), Event)
    assert_type(event.to_event(stream="s", metadata={"by": "me"}), Event)
    event.with_tags(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert_type(CourseDefined.event_type, str)
    assert_type(CourseDefined.from_event(event.to_event()), CourseDefined)


def queries(store: EventStore) -> None:
    item = QueryItem(types=[CourseDefined, "Renamed"], tags=[CourseId("c1"), "vip"], exclude_types=[Renamed])
    assert_type(Query.of(item), Query)
    assert_type(Query.types(CourseDefined, Renamed, "Other") & Query.tag(CourseId("c1")), Query)
    assert_type(store.exists(Query.tag(CourseId("c1"), StudentId("s1"))), bool)
    QueryItem(types=[Course])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    QueryItem(types=CourseDefined)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Query.types(CourseId("c1"), Course)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Query.tag(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert_type(store.retag(1, add=[StudentId("s2")]), AppendResult)
    assert_type(store.retag(Query.all(), replace={"pupil": [StudentId("s2"), "s3"]}), AppendResult)
    assert_type(store.retag(1, replace={CourseId: ["c2", 7, UUID(int=1)]}), AppendResult)
    assert_type(store.retag(1, replace={CourseId: ["c2"], StudentId: []}), AppendResult)
    assert_type(store.retag(1, replace={"pupil": ["s2"], CourseId: ["c2"]}), AppendResult)
    by_class = {CourseId: ["c2"]}
    by_prefix: Mapping[str, tuple[str, ...]] = {"course": ("c2",)}
    assert_type(store.retag(1, replace=by_class), AppendResult)
    assert_type(store.retag(1, replace=by_prefix), AppendResult)
    store.retag(1, replace={Course: ["c2"]})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
    store.retag(1, replace={1: ["c2"]})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
    store.retag(1, replace={"course": [None]})  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    store.retag(1, replace={CourseId: [1.5]})  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    store.retag(1, replace=[CourseId("c2")])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def decide(store: EventStore) -> None:
    assert_type(store.execute(define, Course("c1"), 3), Executed[None])
    assert_type(store.execute(count, [Course("c1")]), Executed[int])
    assert_type(store.execute(count, [Course("c1")]).value, int | None)
    assert_type(store.execute(touch, Course("c1")), Executed[None])
    assert_type(store.execute(number, Numbers()).value, str | None)
    assert_type(store.execute(maybe, course=Course("c1")), Executed[None])
    store.execute(define, Course("c1"))  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    store.execute(define, Course("c1"), "3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    store.execute(define, Numbers(), 3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    store.execute(define, Course("c1"), size=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    store.execute(count, Course("c1"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    store.execute(events)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    define(Course("c1"))  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    twice: Command[[Course, int], None] = define.with_options(attempts=2)
    store.execute(twice.with_options(metadata={"correlation_id": "k"}), Course("c1"), 3)
    define.with_options(attempts="2")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def fold(store: EventStore) -> None:
    assert_type(store.project(Course("c1")), Course)
    assert_type(store.project(Course, "c1"), Course)
    assert_type(store.project(Course, 7).id, CourseId)
    assert_type(Course(7), Course)
    assert_type(Course(UUID(int=7)), Course)
    Course(1.5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Course(id="c1")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    store.project(CourseDefined, "c1")  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]
    with store.boundary(Course("c1"), Numbers()) as boundary:
        assert_type(boundary.states, tuple[Course, Numbers])
        boundary.append(CourseDefined(course=boundary.states[0].id), Event("A", {}))
        boundary.append("A")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        boundary.states[2]  # type: ignore[misc]  # pyright: ignore[reportGeneralTypeIssues]
        assert_type(boundary.result, AppendResult | None)
    for event in store.read():
        assert_type(event.decode(CourseDefined), CourseDefined)


async def decide_async(store: AsyncEventStore) -> None:
    assert_type(await store.execute(count, [Course("c1")]), Executed[int])
    await store.execute(define, Course("c1"), "3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert_type(await store.project(Course("c1")), Course)
    assert_type(await store.project(Course, UUID(int=1)), Course)
    async with store.boundary(Course("c1"), Numbers()) as boundary:
        assert_type(boundary.states, tuple[Course, Numbers])


async def strict_tags(url: str) -> None:
    assert_type(connect(url, strict_tags=True), EventStore)
    assert_type(await connect_async(url, strict_tags=True), AsyncEventStore)
    connect(url, strict=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def count_them(events: Sequence[SequencedEvent]) -> Decision[int]:
    return Decision(len(events), [Event("Counted", {}), CourseDefined(course=CourseId("c1"))])


def count_some(events: Sequence[SequencedEvent]) -> Decision[int] | None:
    return Decision(len(events)) if events else None


def yield_them(events: Sequence[SequencedEvent]) -> Generator[Event, None, str]:
    yield Event("Counted", {})
    return "done"


def just_yield(events: Sequence[SequencedEvent]) -> Iterator[Event | DomainEvent]:
    yield Event("Counted", {})


def from_numbers(numbers: Sequence[int]) -> list[Event]:
    return []


def untyped(store: EventStore) -> None:
    tags = {"course:c1", CourseId("c2")}
    assert_type(store.decide(tags, count_them), Executed[int])
    assert_type(store.decide(tags, count_them).value, int | None)
    assert_type(store.decide(["course:c1"], count_some), Executed[int])
    assert_type(store.decide(Query.tag("course:c1"), yield_them), Executed[str])
    assert_type(store.decide("course-c1", just_yield), Executed[None])
    assert_type(store.decide(tags, lambda events: [Event("Counted", len(events))]), Executed[None])
    assert_type(store.decide(tags, lambda events: Decision(events[0].type)), Executed[str])
    assert_type(Decision(1, [Event("Counted", {})]).value, int)
    store.decide(tags, lambda _: Event("Counted", {}))
    store.decide(tags, lambda _: None)
    store.decide(tags, just_yield, tag_with=lambda event: [event.type, CourseId("c1")], attempts=2)
    store.decide(tags, just_yield, stream="courses", condition=Query.types("Counted"))
    store.decide(tags, just_yield, stream=lambda tags: tags[0])
    store.decide(tags, just_yield, stream=lambda _: None)
    store.decide(tags, from_numbers)  # type: ignore[arg-type]  # pyright: ignore
    store.decide(tags, lambda _: ["Counted"])  # type: ignore[arg-type,return-value]  # pyright: ignore
    store.decide(3, just_yield)  # type: ignore[call-overload]  # pyright: ignore
    store.decide(tags, just_yield, tag_with=["a"])  # type: ignore[call-overload]  # pyright: ignore
    store.decide(tags, just_yield, retries=3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    Decision(1).value = 2  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


async def untyped_async(store: AsyncEventStore) -> None:
    assert_type(await store.decide({"course:c1"}, count_them), Executed[int])
    assert_type(await store.decide("course-c1", just_yield, attempts=1), Executed[None])
    await store.decide(3, just_yield)  # type: ignore[call-overload]  # pyright: ignore
