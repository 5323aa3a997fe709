"""Whatever is passed by mistake is refused with an error that says the fix, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any

import pytest
from enrolment import Course, CourseDefined, CourseId, Student, enroll

import strandline
from strandline import (
    NOW,
    AppendCondition,
    Decision,
    DomainEvent,
    Event,
    EventStore,
    InvalidInput,
    Projection,
    Query,
    QueryItem,
    StrandlineError,
    command,
    on,
    upcast,
)
from strandline.partition import stream_for
from strandline.testing import given, interfering

DEFINED = CourseDefined(course=CourseId("c1"), capacity=1)
Mistake = Callable[[Any], object]


@command
def define_all(courses: list[Course]) -> Iterator[CourseDefined]:
    yield DEFINED


class OtherDefined(DomainEvent, type="CourseDefined"):
    course: CourseId


@command
def define_otherwise(course: Course) -> Iterator[DomainEvent]:
    yield OtherDefined(course=course.id)


def _collect(store: EventStore, event: Any) -> None:
    with store.boundary(Course("c1")) as boundary:
        boundary.append(event)


def _enter_twice(store: EventStore) -> None:
    boundary = store.boundary(Course("c1"))
    with boundary, boundary:
        boundary.append(DEFINED)


@command
def define_now(course: Course, now: datetime = NOW) -> Iterator[CourseDefined]:
    yield DEFINED


@command
def define_and_return(course: Course) -> Iterator[CourseDefined]:
    yield from ()
    return [DEFINED.with_tags("more")]  # type: ignore[return-value]


@command
def define_anything(course: Course, what: Any) -> Iterator[CourseDefined]:
    yield DEFINED


@command
def define_many(course: Course, count: int) -> Iterator[CourseDefined]:
    for capacity in range(count):
        yield CourseDefined(course=course.id, capacity=capacity)


async def later(_: Any) -> list[Event]:
    return something(_)


def one_by_one(_: Any) -> Iterator[bool]:
    yield False


def _told(*what: Any) -> object:
    return given(DEFINED).when(enroll, Student("s1"), Course("c1")).then_raises(*what)


def collected_outside(store: EventStore) -> None:
    store.boundary(Course("c1")).append(DEFINED)


@dataclass
class Decorated(Projection):
    id: CourseId
    is_defined: bool = False

    @on
    def defined(self, event: CourseDefined) -> None: ...


def nothing(_: Sequence[Any]) -> list[Event]:
    return []


def something(_: Sequence[Any]) -> list[Event]:
    return [Event("Noted", {}, tags=["course:c1"])]


MISTAKES: dict[str, Mistake] = {
    "options: metadata that is a number": lambda _: enroll.with_options(metadata=5),  # type: ignore[arg-type]
    "options: metadata that is text": lambda _: enroll.with_options(metadata="user"),  # type: ignore[arg-type]
    "options: metadata of numbers": lambda _: enroll.with_options(metadata={"user": 7}),  # type: ignore[dict-item]
    "options: metadata with a surrogate": lambda _: enroll.with_options(metadata={"user": "\ud800"}),
    "options: a version in the metadata": lambda _: enroll.with_options(metadata={"version": "2"}),
    "to_event: another version in the metadata": lambda _: DEFINED.to_event(metadata={"version": "2"}),
    "append: a class": lambda store: store.append(CourseDefined),  # type: ignore[arg-type]
    "append: a list of a class": lambda store: store.append([CourseDefined]),  # type: ignore[list-item]
    "boundary: a list": lambda store: _collect(store, [DEFINED]),
    "boundary: another class of a type": lambda store: _collect(store, OtherDefined(course=CourseId("c1"))),
    "execute: another class of a type": lambda store: store.execute(define_otherwise, Course("c1")),
    "options: an empty key": lambda _: enroll.with_options(idempotency_key=""),
    "options: a key that is a number": lambda _: enroll.with_options(idempotency_key=7),  # type: ignore[arg-type]
    "options: a key with a line end": lambda _: enroll.with_options(idempotency_key="k\n"),
    "options: a long key": lambda _: enroll.with_options(idempotency_key="k" * 257),
    "options: no attempt": lambda _: enroll.with_options(attempts=0),
    "caused by text": lambda _: enroll.caused_by("x"),  # type: ignore[arg-type]
    "caused by an event without an id": lambda _: enroll.caused_by(DEFINED),  # type: ignore[arg-type]
    "a call without the time": lambda _: list(define_now(Course("c1"))),
    "execute: events that are returned": lambda store: store.execute(define_and_return, Course("c1")),
    "execute: a projection as a value": lambda store: store.execute(
        define_anything, Course("c1"), Student("s1")
    ),
    "execute: too many events": lambda store: store.execute(define_many, Course("c1"), 10_001),
    "command: commutative is text": lambda _: command(commutative="false"),  # type: ignore[call-overload]
    "execute: no command": lambda store: store.execute(print),
    "execute: no arguments": lambda store: store.execute(enroll),
    "execute: an unknown argument": lambda store: store.execute(enroll, Student("s1"), cours="c1"),
    "execute: None for a projection": lambda store: store.execute(enroll, None, Course("c1")),
    "execute: a class for a projection": lambda store: store.execute(enroll, Student, Course("c1")),
    "execute: another projection": lambda store: store.execute(enroll, Course("c1"), Course("c1")),
    "execute: an empty id": lambda store: store.execute(enroll, "", "c1"),
    "execute: an id with a line end": lambda store: store.execute(enroll, "s\n1", "c1"),
    "execute: a long id": lambda store: store.execute(enroll, "s" * 300, "c1"),
    "execute: text for a list": lambda store: store.execute(define_all, "c1"),
    "execute: None for a list": lambda store: store.execute(define_all, None),
    "execute: None in a list": lambda store: store.execute(define_all, [None]),
    "execute: an empty list": lambda store: store.execute(define_all, []),
    "project: None": lambda store: store.project(None),
    "project: a class without its key": lambda store: store.project(Course),
    "project: a key twice": lambda store: store.project(Course("c1"), "c2"),
    "boundary: nothing": lambda store: store.boundary().__enter__(),
    "boundary: collected outside": collected_outside,
    "boundary: states before the read": lambda store: store.boundary(Course("c1")).states,
    "boundary: events before the read": lambda store: store.boundary(Course("c1")).events,
    "boundary: the head before the read": lambda store: store.boundary(Course("c1")).head,
    "boundary: a query": lambda store: store.boundary(Query.tag("a")),
    "boundary: text": lambda store: store.boundary("course:c1"),
    "boundary: entered twice": _enter_twice,
    "project: a dataclass": lambda store: store.project(Decorated("c1")),  # type: ignore[call-arg]
    "boundary: a dataclass": lambda store: store.boundary(Decorated("c1")),  # type: ignore[call-arg]
    "upcast: from text": lambda _: upcast("1"),  # type: ignore[arg-type]
    "decide: a projection": lambda store: store.decide(Course("c1"), nothing),
    "decide: a list of queries": lambda store: store.decide([Query.tag("a")], nothing),
    "decide: a list of functions that make queries": lambda store: store.decide([Query], nothing),
    "boundary: a class": lambda store: store.boundary(Course),
    "explain: no command": lambda store: store.explain(print),
    "decide: None": lambda store: store.decide(None, nothing),
    "decide: no tags": lambda store: store.decide([], nothing),
    "decide: tags that are numbers": lambda store: store.decide({5}, nothing),
    "decide: an empty name": lambda store: store.decide("", nothing),
    "decide: an async function": lambda store: store.decide({"course:c1"}, later),
    "decide: events as a value": lambda store: store.decide({"course:c1"}, lambda _: Decision([DEFINED])),
    "decide: an event as a value": lambda store: store.decide({"course:c1"}, lambda _: Decision(DEFINED)),
    "decide: a tuple": lambda store: store.decide({"course:c1"}, lambda _: ("done", [DEFINED])),
    "decide: no function": lambda store: store.decide({"course:c1"}, None),
    "decide: a number": lambda store: store.decide({"course:c1"}, lambda _: 5),
    "decide: a class": lambda store: store.decide({"course:c1"}, lambda _: CourseDefined),
    "decide: a list of text": lambda store: store.decide({"course:c1"}, lambda _: ["x"]),
    "decide: a decision of a number": lambda store: store.decide({"course:c1"}, lambda _: Decision(1, 5)),  # type: ignore[arg-type]
    "decide: tag_with a number": lambda store: store.decide({"course:c1"}, something, tag_with=5),
    "decide: tag_with text": lambda store: store.decide({"course:c1"}, something, tag_with=lambda _: "vip"),
    "decide: tag_with None": lambda store: store.decide({"course:c1"}, something, tag_with=lambda _: None),
    "decide: a stream that is a number": lambda store: store.decide({"course:c1"}, something, stream=5),
    "decide: a condition with a position": lambda store: store.decide(
        {"course:c1"}, something, condition=AppendCondition(Query.all())
    ),
    "decide: an async tag_with": lambda store: store.decide({"course:c1"}, something, tag_with=later),
    "decide: a condition that is text": lambda store: store.decide({"course:c1"}, something, condition="x"),
    "decide: attempts as text": lambda store: store.decide({"course:c1"}, something, attempts="many"),
    "stream_for: text": lambda _: stream_for("course:c1"),
    "stream_for: numbers": lambda _: stream_for([5]),  # type: ignore[list-item]
    "stream_for: no partition": lambda _: stream_for(["a"], partitions=0),
    "stream_for: a prefix that is None": lambda _: stream_for(["a"], prefix=None),  # type: ignore[arg-type]
    "an id that is None": lambda _: CourseId(None),  # type: ignore[arg-type]
    "an event of another type of value": lambda store: store.append(
        CourseDefined(course=CourseId("c1"), capacity="x")  # type: ignore[arg-type]
    ),
    "an event with a number that is no id": lambda store: store.append(
        CourseDefined(course=1.5, capacity=1)  # type: ignore[arg-type]
    ),
    "tags that are text": lambda _: DEFINED.to_event(tags="vip"),
    "decode: no class": lambda _: DEFINED.to_event().decode(5),  # type: ignore[arg-type]
    "from_event: None": lambda _: CourseDefined.from_event(None),  # type: ignore[arg-type]
    "a stream that is None": lambda _: Query.stream(None),  # type: ignore[arg-type]
    "a subject that is None": lambda _: Query.subject(None),  # type: ignore[arg-type]
    "exists: None": lambda store: store.exists(None),
    "a matcher that is async": lambda _: Query.of(QueryItem(where=later)),  # type: ignore[arg-type]
    "a matcher that yields": lambda _: Query.of(QueryItem(where=one_by_one)),  # type: ignore[arg-type]
    "retag: a prefix with its colon": lambda store: store.retag(1, replace={"course:": ["c2"]}),
    "retag: an event": lambda store: store.retag(DEFINED.to_event(), add=["a"]),
    "strict_tags is text": lambda _: strandline.connect("memory:", strict_tags="no"),  # type: ignore[arg-type]
    "create is a number": lambda _: strandline.connect("memory:", create=0),
    "a query for an empty key": lambda _: Query.of(QueryItem(key="")),
    "foreign: tags that are text": lambda _: Event.from_foreign({"type": "A"}, tags="course"),  # type: ignore[arg-type]
    "foreign: a prefix that is None": lambda _: Event.from_foreign({"type": "A"}, tags={None: "type"}),
    "story: text": lambda _: given("x"),  # type: ignore[arg-type]
    "story: the text of an error": lambda _: _told("full"),
    "story: an error itself": lambda _: _told(ValueError("full")),
    "story: no regular expression": lambda _: _told(ValueError, "["),
    "story: no command": lambda _: given().when(None),  # type: ignore[arg-type]
    "interfering: no store": lambda _: interfering(None, DEFINED).__enter__(),  # type: ignore[arg-type]
    "interfering: no event": lambda store: interfering(store, 5).__enter__(),  # type: ignore[arg-type]
    "a cache of less than nothing": lambda _: strandline.connect("memory:", decision_cache=-1),
    "data of no bytes": lambda _: strandline.connect("memory:", max_data_bytes=0),
    "data of text": lambda _: strandline.connect("memory:", max_data_bytes="5"),  # type: ignore[arg-type]
    "a clock that is a number": lambda _: strandline.connect("memory:", clock=5),  # type: ignore[arg-type]
    "a cache of text": lambda _: strandline.connect("memory:", decision_cache="big"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_refused_with_the_fix_and_writes_nothing(mistake: Mistake) -> None:
    with strandline.connect("memory:") as store, pytest.raises(StrandlineError) as refused:
        mistake(store)
    assert refused.value.hint
    assert _head_of(store) == 0


def _head_of(store: EventStore) -> int:
    return store.engine.head()


@pytest.mark.parametrize("option", [{"decision_cache": -1}, {"max_data_bytes": 0}])
def test_a_wrong_option_makes_no_file(tmp_path: Path, option: dict[str, int]) -> None:
    with pytest.raises(InvalidInput):
        strandline.connect(tmp_path / "new.db", **option)  # type: ignore[arg-type]
    assert not any(tmp_path.iterdir())


class Nowhere(tzinfo):
    def utcoffset(self, _: datetime | None) -> None:
        return None


def test_a_time_zone_that_has_no_offset_is_none() -> None:
    with strandline.connect("memory:") as store, pytest.raises(InvalidInput, match="needs a time zone"):
        store.position_at(datetime(2026, 1, 1, tzinfo=Nowhere()))


def test_a_command_may_return_events_beside_those_that_it_yielded_or_yield_ten_thousand() -> None:
    @command
    def define(course: Course) -> Iterator[CourseDefined]:
        yield DEFINED
        return [other]  # type: ignore[return-value]

    other = DEFINED.with_tags("more")
    with strandline.connect("memory:") as store:
        assert store.execute(define, Course("c1")).value == [other]  # type: ignore[comparison-overlap]
        assert store.execute(define_many, Course("c1"), 10_000).count == 10_000
        assert store.decide({"course:c1"}, lambda _: Decision(DEFINED, [DEFINED])).value is DEFINED


def test_the_time_that_is_passed_to_a_plain_call_is_taken() -> None:
    assert list(define_now(Course("c1"), now=datetime(2026, 1, 1, tzinfo=UTC))) == [DEFINED]
    assert list(define_now(Course("c1"), datetime(2026, 1, 1, tzinfo=UTC))) == [DEFINED]
    with pytest.raises(TypeError, match="missing"):
        define_now()  # type: ignore[call-arg]
