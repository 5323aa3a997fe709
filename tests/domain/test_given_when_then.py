"""given / when / then: what it accepts is what a store would do, and what it says when it does not."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from datetime import UTC, datetime, timedelta
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
    Student,
    StudentId,
    StudentSubscribed,
    define,
    enroll,
    enroll_in_all,
    when,
    write_invoice,
)

import strandline
from strandline import (
    NOW,
    DomainEvent,
    Event,
    InvalidEvent,
    InvalidInput,
    InvalidQuery,
    Projection,
    SequencedEvent,
    TagId,
    command,
    on,
    upcast,
)
from strandline.testing import given

C1 = CourseId("c1")
NOON = datetime(2025, 6, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def defined(course: str = "c1", capacity: int = 1) -> CourseDefined:
    return CourseDefined(course=CourseId(course), capacity=capacity)


def subscribed(student: str, course: str = "c1") -> StudentSubscribed:
    return StudentSubscribed(student=StudentId(student), course=CourseId(course))


SCHOOL = given(defined("c1", 1), defined("c2", 2))


def test_a_command_decides_on_what_is_given() -> None:
    given(defined()).when(enroll, Student("s1"), Course("c1")).then(subscribed("s1"))
    given().when(define, Course("c1"), capacity=3).then(defined(capacity=3))
    given(defined()).when(define, Course("c1"), 3).then_nothing()
    given(defined(), subscribed("s2")).when(enroll, Student("s1"), Course("c1")).then_raises(CourseFull)
    given().when(enroll, student="s1", course="c1").then_raises((KeyError, CourseFull), match="^c1$")  # type: ignore[arg-type]


def test_a_generator_may_return_a_value_beside_its_events() -> None:
    decision = SCHOOL.when(enroll_in_all, Student("s1"), [Course("c1"), Course("c2")])
    decision.then(subscribed("s1"), subscribed("s1", "c2")).then_returns(2)
    decision.then_returns(2).then(subscribed("s1"), subscribed("s1", "c2"))
    assert ([event.type for event in decision.events], decision.value) == (["StudentSubscribed"] * 2, 2)
    given().when(enroll_in_all, Student("s1"), []).then_nothing().then_returns(0)


def test_what_was_decided_is_part_of_the_story_that_goes_on() -> None:
    (
        given(defined())
        .when(enroll, Student("s1"), Course("c1"))
        .then(subscribed("s1"))
        .then_state(Course("c1"), taken=1)
        .when(enroll, Student("s2"), Course("c1"))
        .then_raises(CourseFull)
        .given(CapacityChanged(course=C1, capacity=2))
        .when(enroll, Student("s2"), Course("c1"))
        .then(subscribed("s2"))
        .then_state(Course, "c1", taken=2, students=["s1@2", "s2@4"], id="c1")
    )


def test_stories_that_begin_alike_do_not_share_what_follows() -> None:
    SCHOOL.when(enroll, Student("s1"), Course("c1")).then(subscribed("s1"))
    SCHOOL.when(enroll, Student("s2"), Course("c1")).then(subscribed("s2"))
    assert SCHOOL.given(subscribed("s1")).project(Course("c1")).taken == 1
    assert SCHOOL.project(Course, "c1").taken == 0


class Everything(Projection):
    """Whatever reaches the course, in the words of the log."""

    id: CourseId
    seen: list[tuple[str, int, datetime]] = []

    @on
    def happened(self, event: CourseDefined | StudentSubscribed, recorded: SequencedEvent) -> None:
        self.seen.append((recorded.type, recorded.position, recorded.recorded_at))


@command
def report(course: Everything, student: Student) -> Generator[Event, None, tuple[list[Any], int]]:
    yield from ()
    return course.seen, student.courses


def test_nothing_outside_of_its_boundary_reaches_a_command() -> None:
    story = given(
        defined("c2"),  # another course
        defined("c1"),
        CapacityChanged(course=C1, capacity=7),  # a type that it does not handle
        subscribed("s1", "c2"),  # its student, another course
        Event("Unknown", {"course": "c1"}, tags=["course:c1"]),
        subscribed("s2"),
        at=NOON,
    )
    seen = [("CourseDefined", 2, NOON), ("StudentSubscribed", 6, NOON)]
    story.when(report, Everything("c1"), Student("s1")).then_nothing().then_returns((seen, 1))
    assert not story.project(Enrollment("s1", "c1")).exists
    assert story.project(Enrollment("s2", "c1")).exists


def test_a_projection_of_the_newest_event_is_folded_from_that_one() -> None:
    numbers = given(InvoiceWritten(number=8), InvoiceWritten(number=3), defined())
    numbers.when(write_invoice, Invoices()).then(InvoiceWritten(number=4)).when(
        write_invoice, Invoices()
    ).then(InvoiceWritten(number=5))


def test_a_story_decides_as_a_store_does() -> None:
    events = [defined("c1", 2), defined("c2", 0), subscribed("s1"), subscribed("s2", "c2")]
    with strandline.connect("memory:") as store:
        store.append(events)
        executed = store.execute(enroll_in_all, Student("s1"), [Course("c1"), Course("c2")])
        *_, event = store.read()
        decision = given(*events).when(enroll_in_all, Student("s1"), [Course("c1"), Course("c2")])
        assert decision.value == executed.value
        assert [(e.type, e.data, e.tags) for e in decision.events] == [(event.type, event.data, event.tags)]
        assert decision.project(Course("c1")) == store.project(Course("c1"))


def test_the_options_of_a_command_count() -> None:
    once = enroll.with_options(idempotency_key="k1", metadata={"correlation_id": "x"})
    decision = given(defined()).when(once, Student("s1"), Course("c1")).then(subscribed("s1"))
    assert [event.metadata for event in decision.events] == [{"correlation_id": "x"}]
    again = decision.when(once, Student("s1"), Course("c1")).then_nothing()  # though the course is full now
    again.when(enroll, Student("s1"), Course("c1")).then_raises(CourseFull)


def test_untyped_events_are_as_good_as_typed_ones() -> None:
    raw = Event("CourseDefined", {"capacity": 1, "course": "c1"}, tags=["course:c1"], metadata={"by": "me"})
    story = given(raw)
    story.when(enroll, Student("s1"), Course("c1")).then(
        Event(
            "StudentSubscribed",
            b'{ "course": "c1", "student": "s1" }',
            tags=["student:s1", "course:c1"],
            metadata={"ignored": "yes"},
        )
    )


@command
def write_raw(course: Course, event: str, stream: str | None = None) -> Event:
    return Event(
        "Raw", event.encode(), tags=[course.id], stream=stream, subject=None if stream is None else "x"
    )


@pytest.mark.parametrize(
    ("decided", "expected", "is_expected"),
    [
        ('{"a": 1, "b": [2]}', {"b": [2], "a": 1.0}, True),
        ('{"a": 1}', {"a": True}, False),
        ('{"a": 1}', {"a": 1, "b": None}, False),
        ("[1, 2]", [1, 2], True),
        ("[1, 2]", [2, 1], False),
        ("not JSON", b"not JSON", True),
        ("not JSON", b"not JSON either", False),
    ],
)
def test_data_is_compared_as_json(decided: str, expected: object, is_expected: bool) -> None:
    decision = given().when(write_raw, Course("c1"), decided)
    if is_expected:
        decision.then(Event("Raw", expected, tags=[C1]))
    else:
        with pytest.raises(AssertionError, match="expected another event"):
            decision.then(Event("Raw", expected, tags=[C1]))


def test_stream_and_subject_count_if_they_are_named() -> None:
    decision = given().when(write_raw, Course("c1"), "1", "s")
    decision.then(Event("Raw", 1, tags=[C1])).then(Event("Raw", 1, tags=[C1], stream="s", subject="x"))
    for other in ({"stream": "t"}, {"subject": "y"}):
        with pytest.raises(AssertionError, match=r"expected '[ty]', decided '[sx]'"):
            decision.then(Event("Raw", 1, tags=[C1], **other))
    for tags in ([], [C1, "more"], ["other"]):
        with pytest.raises(AssertionError, match="tags: "):
            decision.then(Event("Raw", 1, tags=tags))


class Renamed(DomainEvent, type="Named", version=2):
    course: CourseId
    title: str

    @staticmethod
    @upcast(1)
    def _title(data: dict[str, object]) -> dict[str, object]:
        return {"course": data["course"], "title": data["name"]}


class Titles(Projection):
    id: CourseId
    titles: list[str] = []

    @on
    def renamed(self, event: Renamed) -> None:
        self.titles.append(event.title)


def test_older_versions_are_upcast() -> None:
    old = Event("Named", {"course": "c1", "name": "Go"}, tags=["course:c1"])
    given(old, Renamed(course=C1, title="Chess")).then_state(Titles("c1"), titles=["Go", "Chess"])


def test_time_is_what_the_story_says() -> None:
    assert given().when(when, Course("c1")).value == datetime(2026, 1, 1, tzinfo=UTC)
    given(defined()).at(NOON).when(when, Course("c1")).then_returns(NOON)
    story = (
        given(defined(), subscribed("s1"))  # without a time: at the first one that is named
        .given(subscribed("s2"), at=NOON)
        .given(subscribed("s3"))
        .at(NOON + HOUR)
        .given(subscribed("s4"))
        .at(NOON + 2 * HOUR)
    )
    story.when(when, Course("c1")).then_returns(NOON + 2 * HOUR)
    decided = (
        given(defined()).when(define, Course("c1"), 3).then_nothing().at(datetime(2027, 1, 1, tzinfo=UTC))
    )
    assert decided.project(Everything("c1")).seen == [("CourseDefined", 1, datetime(2026, 1, 1, tzinfo=UTC))]
    hours = [(position, at - NOON) for _, position, at in story.project(Everything("c1")).seen]
    assert hours == [(1, 0 * HOUR), (2, 0 * HOUR), (3, 0 * HOUR), (4, 0 * HOUR), (5, HOUR)]


def test_a_time_may_be_named_after_a_command_that_decided_without_one() -> None:
    decided = given(defined()).when(enroll, Student("s1"), Course("c1")).then(subscribed("s1"))
    assert decided.at(NOON).when(when, Course("c1")).value == NOON
    story = decided.given(subscribed("s2"), at=NOON).given(subscribed("s3"), at=NOON + HOUR)
    times = [at for _, _, at in story.project(Everything("c1")).seen]
    assert times == [NOON, NOON, NOON, NOON + HOUR]
    refused = decided.when(enroll, Student("s2"), Course("c1")).then_raises(CourseFull)
    assert refused.at(NOON).when(when, Course("c1")).value == NOON
    with pytest.raises(InvalidInput, match="does not go back"):
        decided.at(NOON).at(NOON - HOUR)


def test_what_was_decided_without_a_time_is_as_old_as_the_story_says_later() -> None:
    sent = given().when(send, OptIn("t1")).then(TokenSent(token=Token("t1")))
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    sent.at(begin + HOUR).when(confirm, OptIn("t1")).then(TokenUsed(token=Token("t1")))
    sent.at(begin + 2 * HOUR).when(confirm, OptIn("t1")).then_raises(Expired)


class Token(TagId): ...


class TokenSent(DomainEvent):
    token: Token


class TokenUsed(DomainEvent):
    token: Token


class OptIn(Projection):
    token: Token
    sent_at: datetime | None = None
    is_used: bool = False

    @on
    def sent(self, event: TokenSent, recorded: SequencedEvent) -> None:
        self.sent_at = recorded.recorded_at

    @on
    def used(self, event: TokenUsed) -> None:
        self.is_used = True


class Expired(Exception): ...


@command
def confirm(token: OptIn, now: datetime = NOW) -> Iterator[TokenUsed]:
    if token.sent_at is None or now - token.sent_at > HOUR:
        raise Expired
    if not token.is_used:
        yield TokenUsed(token=token.token)


@command
def send(token: OptIn) -> TokenSent:
    return TokenSent(token=token.token)


def test_a_decision_by_age_needs_no_waiting() -> None:
    sent = given(TokenSent(token=Token("t1")), at=NOON)
    used = sent.at(NOON + HOUR).when(confirm, OptIn("t1")).then(TokenUsed(token=Token("t1")))
    used.when(confirm, OptIn("t1")).then_nothing()
    sent.at(NOON + 2 * HOUR).when(confirm, OptIn("t1")).then_raises(Expired)
    used.at(NOON + 2 * HOUR).when(confirm, OptIn("t1")).then_raises(Expired)


def test_what_cannot_be_a_story_is_refused() -> None:
    same = Event("Same", {})
    told = given(defined(), same, at=NOON)
    mistakes: list[tuple[Callable[[], object], str]] = [
        (lambda: given([defined()]), "one by one"),  # type: ignore[arg-type]
        (lambda: given(7), "events are Events"),  # type: ignore[arg-type]
        (lambda: told.given(same), "given twice"),
        (lambda: told.at(NOON - HOUR), "does not go back"),
        (lambda: given(at=datetime(2025, 1, 1)), "time zone"),  # noqa: DTZ001
        (lambda: told.when(len, []), "is no command"),  # type: ignore[arg-type]
        (lambda: told.when(enroll, Student("s1")), "missing a required argument"),  # type: ignore[call-arg]
        (lambda: told.when(enroll, Course("c1"), Course("c1")), "is a Student, not a Course"),  # type: ignore[arg-type]
        (lambda: told.then_state(Course("c1"), seats=1), "has no field seats"),
        (lambda: told.then_state(Course("c1")), "no field is expected"),
        (lambda: told.when(define, Course("c1"), 1).then([defined()]), "one by one"),  # type: ignore[arg-type]
    ]
    for mistake, message in mistakes:
        with pytest.raises(InvalidInput, match=message):
            mistake()


def test_the_hint_for_a_list_of_events_names_what_was_called() -> None:
    with pytest.raises(InvalidInput) as caught:
        given([defined()])  # type: ignore[arg-type]
    assert caught.value.hint == "write given(*events)"
    with pytest.raises(InvalidInput) as caught:
        given().when(define, Course("c1"), 1).then([defined()])  # type: ignore[arg-type]
    assert caught.value.hint == "write then(*events)"


@command
def wrong(course: Course, what: str) -> Any:
    return {"value": [7], "empty": [Event("E", b"")], "none": None}[what]


@command
def without_any(courses: list[Course]) -> Any: ...


def test_what_a_store_would_refuse_is_refused() -> None:
    given().when(wrong, Course("c1"), "value").then_raises(InvalidEvent, match="gave an int")
    given().when(wrong, Course("c1"), "none").then_nothing()
    given().when(without_any, []).then_raises(InvalidQuery, match="depends on nothing")


class Broken(Projection):
    id: CourseId

    @on
    def defined(self, event: CourseDefined) -> None:
        raise LookupError(event.capacity)


@command
def rely(broken: Broken) -> Any: ...


def test_a_mistake_in_a_handler_is_not_an_answer_of_the_command() -> None:
    given().when(rely, Broken("c1")).then_nothing()
    with pytest.raises(LookupError):
        given(defined()).when(rely, Broken("c1"))
    with pytest.raises(LookupError):
        given(defined()).project(Broken("c1"))


def test_a_refusal_that_nobody_expected_comes_to_light() -> None:
    refused = given().when(enroll, Student("s1"), Course("c1"))
    assert isinstance(refused.error, CourseFull)
    later: list[Callable[[], object]] = [
        lambda: refused.when(enroll, Student("s1"), Course("c1")),
        lambda: refused.given(defined()),
        lambda: refused.at(NOON),
        lambda: refused.project(Course("c1")),
        lambda: refused.then_state(Course("c1"), taken=0),
    ]
    for go_on in later:
        with pytest.raises(CourseFull):
            go_on()
    refused.then_raises(CourseFull).given(defined()).when(enroll, Student("s1"), Course("c1")).then(
        subscribed("s1")
    )


def test_users_need_neither_pytest_nor_hypothesis() -> None:
    program = (
        "import sys; sys.modules.update(pytest=None, hypothesis=None);"
        "from strandline.testing import given, interfering, violations, ManualClock"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_refusal_that_nothing_looks_at_is_a_warning() -> None:
    story = given(CourseDefined(course=CourseId("c1"), capacity=0))
    with pytest.warns(UserWarning, match=r"was refused, and nothing looked at that: CourseFull"):
        story.when(enroll, Student("s1"), Course("c1"))


def test_a_refusal_that_is_looked_at_is_none(recwarn: pytest.WarningsRecorder) -> None:
    story = given(CourseDefined(course=CourseId("c1"), capacity=0))
    assert story.when(enroll, Student("s1"), Course("c1")).error is not None
    story.when(enroll, Student("s1"), Course("c1")).then_raises(CourseFull)
    with pytest.raises(CourseFull):
        story.when(enroll, Student("s1"), Course("c1")).when(enroll, Student("s2"), Course("c1"))
    with pytest.raises(AssertionError):
        story.when(enroll, Student("s1"), Course("c1")).then_nothing()
    gc.collect()
    assert not recwarn.list
