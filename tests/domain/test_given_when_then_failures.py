"""What given / when / then says when something else came of it than was expected."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from enrolment import Course, CourseFull, Student, define, enroll, enroll_in_all
from test_given_when_then import C1, SCHOOL, defined, subscribed, write_raw

from strandline import Event, command
from strandline.testing import given


def failure(test: Callable[[], object]) -> str:
    with pytest.raises(AssertionError) as caught:
        test()
    return str(caught.value)


def test_other_events_are_told_apart_field_by_field() -> None:
    decision = SCHOOL.given(defined("c3", 1)).when(
        enroll_in_all, Student("s1"), [Course("c1"), Course("c2"), Course("c3")]
    )
    assert failure(lambda: decision.then(subscribed("s1"), subscribed("s2", "c2"), defined("c3", 1))) == (
        "expected other events, but enroll_in_all(Student('s1'), [Course('c1'), Course('c2'), Course('c3')])"
        " decided 3 events and returned 3\n"
        "\n"
        "  1. as expected: StudentSubscribed(student='s1', course='c1') tagged course:c1, student:s1\n"
        "  2. different: StudentSubscribed(student='s1', course='c2') tagged course:c2, student:s1\n"
        "       student: expected 's2', decided 's1'\n"
        "       tags: student:s2 is missing, student:s1 is unexpected\n"
        "  3. missing: CourseDefined(course='c3', capacity=1) tagged course:c3\n"
        "  3. unexpected: StudentSubscribed(student='s1', course='c3') tagged course:c3, student:s1\n"
        "\n"
        "It decided on\n"
        "  Student(id=StudentId('s1'), courses=0)\n"
        "  Course(id=CourseId('c1'), exists=True, capacity=1, taken=0, students=[])\n"
        "  Course(id=CourseId('c2'), exists=True, capacity=2, taken=0, students=[])\n"
        "  Course(id=CourseId('c3'), exists=True, capacity=1, taken=0, students=[])"
    )


def test_events_that_are_missing_or_too_many_do_not_make_the_others_look_wrong() -> None:
    decision = SCHOOL.when(enroll_in_all, Student("s1"), [Course("c1"), Course("c2")])
    missing = failure(lambda: decision.then(defined("c0"), subscribed("s1"), subscribed("s1", "c2")))
    assert [line.partition(":")[0] for line in missing.splitlines()[2:5]] == [
        "  1. missing",
        "  1. as expected",
        "  2. as expected",
    ]
    more = failure(lambda: decision.then(subscribed("s1", "c2")))
    assert [line.partition(":")[0] for line in more.splitlines()[2:4]] == [
        "  1. unexpected",
        "  2. as expected",
    ]
    nothing = failure(decision.then_nothing)
    assert nothing.startswith(
        "expected nothing, but enroll_in_all(Student('s1'), [Course('c1'), Course('c2')])"
    )
    assert [line.partition(":")[0] for line in nothing.splitlines()[2:4]] == [
        "  1. unexpected",
        "  2. unexpected",
    ]
    again = failure(lambda: SCHOOL.when(define, course=Course("c1"), capacity=2).then(defined(capacity=2)))
    assert again.startswith("expected 1 event, but define(course=Course('c1'), capacity=2) decided nothing\n")


def test_nested_data_is_compared_by_path() -> None:
    data = '{"a": {"b": [1, 2], "c": 3, "d": {"e": 1}}, "long": "' + "x" * 1000 + '"}'
    expected = {"a": {"b": [1], "c": 3, "d": {"f": 1}}, "long": "y"}
    lines = failure(
        lambda: given().when(write_raw, Course("c1"), data).then(Event("Raw", expected, tags=[C1]))
    ).splitlines()
    assert [line.strip() for line in lines[3:6]] == [
        "a.b: expected [1], decided [1, 2]",
        "a.d.f: expected 1, decided no such field",
        "a.d.e: expected no such field, decided 1",
    ]
    assert "long: expected 'y', decided 'xxx" in lines[6]
    assert max(map(len, lines)) < 500


def told_of_data(expected: Any, decided: Any) -> list[str]:
    """What a failure says about the data of one event."""
    decision = given().when(write_raw, Course("c1"), json.dumps(decided))
    lines = failure(lambda: decision.then(Event("Raw", expected, tags=[C1]))).splitlines()
    return [line.strip() for line in lines[3 : lines.index("", 2)]]


def test_lists_are_compared_entry_by_entry() -> None:
    items = [{"n": number, "name": "x" * 10} for number in range(100)]
    wrong = [*items[:90], {**items[90], "n": -1}, *items[91:]]
    assert told_of_data({"items": wrong}, {"items": items}) == ["items.90.n: expected -1, decided 90"]
    assert told_of_data([[1, 2], 3], [[1, 4], 3]) == ["data.0.1: expected 2, decided 4"]
    assert told_of_data({"items": [1]}, {"items": [1, 2]}) == ["items: expected [1], decided [1, 2]"]


def test_an_entry_that_is_missing_or_too_much_does_not_make_the_others_look_wrong() -> None:
    items = [f"item {number}" for number in range(100)]
    assert told_of_data(items, items[:40] + items[41:]) == [
        "data: expected 100 entries, decided 99",
        "data.40: expected 'item 40', decided no such entry",
    ]
    assert told_of_data(items[1:], [*items[:2], "new", *items[2:]]) == [
        "data: expected 99 entries, decided 101",
        "data.0: expected 'item 1', decided 'item 0'",
        "data.1: expected no such entry, decided 'item 1'",
        "data.2: expected no such entry, decided 'new'",
    ]


def test_long_texts_are_shown_where_they_begin_to_differ() -> None:
    (line,) = told_of_data({"text": "a" * 5_000 + "b"}, {"text": "a" * 5_000 + "c"})
    assert line == f"text: expected …{'a' * 40}b', decided …{'a' * 40}c'"
    (line,) = told_of_data({"text": "x" + "a" * 5_000}, {"text": "a" * 5_000})
    assert line == f"text: expected 'x{'a' * 398}…, decided '{'a' * 399}…"
    (line,) = told_of_data({"text": ["a" * 500]}, {"text": {"a": "a" * 500}})
    assert line.startswith("text: expected ['aaa")


def test_many_differences_are_not_all_shown() -> None:
    told = told_of_data(list(range(100)), list(range(1, 101)))
    assert (told[0], told[19], told[20:]) == (
        "data.0: expected 0, decided 1",
        "data.19: expected 19, decided 20",
        ["… and 80 more"],
    )


@command
def write_two(course: Course) -> Iterator[Event]:
    for stream, subject in (("s", None), ("t", "x")):
        yield Event("Raw", 1, tags=[course.id], stream=stream, subject=subject)


def told_of_places(*expected: Event) -> list[str]:
    decision = given().when(write_two, Course("c1"))
    lines = failure(lambda: decision.then(*expected)).splitlines()
    return [line.strip() for line in lines[2 : lines.index("", 2)]]


def raw(stream: str | None = None, subject: str | None = None) -> Event:
    return Event("Raw", 1, tags=[C1], stream=stream, subject=subject)


def test_stream_and_subject_are_shown() -> None:
    assert told_of_places(raw("s")) == [
        "1. as expected: Raw(1) tagged course:c1 in stream 's'",
        "2. unexpected: Raw(1) tagged course:c1 in stream 't' with subject 'x'",
    ]
    assert told_of_places(raw("t"), raw("s")) == [
        "1. unexpected: Raw(1) tagged course:c1 in stream 's'",
        "2. as expected: Raw(1) tagged course:c1 in stream 't' with subject 'x'",
        "2. missing: Raw(1) tagged course:c1 in stream 's'",
    ]
    assert told_of_places(raw("s"), raw(subject="y")) == [
        "1. as expected: Raw(1) tagged course:c1 in stream 's'",
        "2. different: Raw(1) tagged course:c1 in stream 't' with subject 'x'",
        "subject: expected 'y', decided 'x'",
    ]


def test_an_event_that_is_expected_in_any_stream_does_not_hide_that_another_is_elsewhere() -> None:
    assert told_of_places(raw(), raw("u")) == [
        "1. as expected: Raw(1) tagged course:c1 in stream 's'",
        "2. different: Raw(1) tagged course:c1 in stream 't' with subject 'x'",
        "stream: expected 'u', decided 't'",
    ]


def test_a_refusal_in_the_place_of_events_is_shown_with_its_cause() -> None:
    refused = given(defined(capacity=0)).when(enroll, Student("s1"), Course("c1"))
    with pytest.raises(AssertionError) as caught:
        refused.then(subscribed("s1"))
    assert str(caught.value) == (
        "expected 1 event, but enroll(Student('s1'), Course('c1')) raised CourseFull: c1\n"
        "\n"
        "  1. missing: StudentSubscribed(student='s1', course='c1') tagged course:c1, student:s1\n"
        "\n"
        "It decided on\n"
        "  Student(id=StudentId('s1'), courses=0)\n"
        "  Course(id=CourseId('c1'), exists=True, capacity=0, taken=0, students=[])"
    )
    assert isinstance(caught.value.__cause__, CourseFull)
    assert failure(refused.then_nothing).startswith("expected nothing, but enroll(")
    assert failure(lambda: refused.then_returns(None)).startswith("expected None to be returned, but enroll(")


def test_a_repeat_is_told_as_one() -> None:
    once = enroll_in_all.with_options(idempotency_key="k1")
    done = SCHOOL.when(once, Student("s1"), [Course("c1")]).then(subscribed("s1")).then_returns(1)
    again = done.when(once, Student("s1"), [Course("c1")]).then_nothing()
    assert (done.duplicate, again.duplicate, again.value, again.events) == (False, True, None, [])
    repeated = (
        "enroll_in_all(Student('s1'), [Course('c1')])"
        " repeated what was done before, which writes and returns nothing\n"
    )
    assert failure(lambda: again.then(subscribed("s1"))).startswith(f"expected 1 event, but {repeated}")
    assert failure(lambda: again.then_returns(1)).startswith(f"expected 1 to be returned, but {repeated}")
    assert failure(lambda: again.then_raises(CourseFull)).startswith(f"expected CourseFull, but {repeated}")


def test_the_same_event_again_is_a_repeat_too() -> None:
    written = Event("Raw", 1, tags=[C1])

    @command
    def write_it(course: Course) -> Event:
        return written

    again = given(written).when(write_it, Course("c1")).then_nothing()
    assert again.duplicate
    assert "repeated what was done before" in failure(lambda: again.then(written))


def test_another_refusal_than_the_expected_one_is_told() -> None:
    refused = given().when(enroll, Student("s1"), Course("c1"))
    call = "enroll(Student('s1'), Course('c1'))"
    assert failure(lambda: refused.then_raises(KeyError)).startswith(
        f"expected KeyError, but {call} raised CourseFull: c1\n"
    )
    assert failure(lambda: refused.then_raises((KeyError, CourseFull), match="c2")).startswith(
        f"expected KeyError or CourseFull with a text like 'c2', but {call} raised CourseFull: c1\n"
    )
    accepted = SCHOOL.when(enroll, Student("s1"), Course("c1"))
    assert failure(lambda: accepted.then_raises(CourseFull)).startswith(
        f"expected CourseFull, but {call} decided 1 event\n"
        "\n"
        "  1. unexpected: StudentSubscribed(student='s1', course='c1') tagged course:c1, student:s1\n"
    )


def test_another_value_or_state_is_told() -> None:
    decision = SCHOOL.when(enroll_in_all, Student("s1"), [Course("c1")])
    assert failure(lambda: decision.then_returns(2)).startswith(
        "expected 2 to be returned, but enroll_in_all(Student('s1'), [Course('c1')])"
        " decided 1 event and returned 1\n"
    )
    assert failure(lambda: SCHOOL.then_state(Course("c1"), taken=1, exists=True, capacity=2)) == (
        "expected another state of Course('c1')\n"
        "\n"
        "  taken: expected 1, but it is 0\n"
        "  capacity: expected 2, but it is 1\n"
        "\n"
        "The state is\n"
        "  Course(id=CourseId('c1'), exists=True, capacity=1, taken=0, students=[])"
    )


def test_the_documentation_shows_a_real_failure() -> None:
    page = (Path(__file__).parents[2] / "docs/testing.md").read_text()
    (code,) = [code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "def buy(" in code]
    (shown,) = re.findall(r"```text\nAssertionError: (.*?)\n```", page, re.DOTALL)
    names: dict[str, Any] = {"__name__": "documentation"}
    exec(compile(code, "block", "exec", dont_inherit=True), names)
    decision = given().when(names["buy"], names["Seat"]("A1"), "Ann")
    assert failure(lambda: decision.then(names["SeatSold"](seat=names["A1"], to="Bob"))) == shown


FAILING = """
from enrolment import Course, CourseDefined, CourseId, Student, define, enroll
from strandline.testing import given
from test_given_when_then import Broken, rely

C1 = CourseId("c1")


def test_refused():
    given().when(enroll, Student("s1"), Course("c1")).then_nothing()


def test_otherwise():
    given().when(define, Course("c1"), 3).then(CourseDefined(course=C1, capacity=4))


def test_state():
    given().then_state(Course("c1"), taken=1)


def test_handler():
    given(CourseDefined(course=C1, capacity=4)).when(rely, Broken("c1")).then_nothing()


def test_goes_on():
    given().when(enroll, Student("s1"), Course("c1")).given()
"""


def test_pytest_shows_the_test_and_the_users_code_and_nothing_of_ours(tmp_path: Path) -> None:
    file = tmp_path / "test_failing.py"
    file.write_text(FAILING)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", str(file)],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "5 failed" in ran.stdout, ran.stdout + ran.stderr
    assert re.findall(r"strandline/(?:testing|domain|store)", ran.stdout) == []
    for line in (
        '>   given().when(define, Course("c1"), 3).then(CourseDefined(course=C1, capacity=4))',
        "E   AssertionError: expected another event, but define(Course('c1'), 3) decided 1 event",
        "E       capacity: expected 4, decided 3",
        ">   raise CourseFull(course.id)",
        "E   AssertionError: expected nothing, but enroll(Student('s1'), Course('c1')) raised CourseFull: c1",
        ">   raise LookupError(event.capacity)",
    ):
        assert " ".join(line.split()) in " ".join(ran.stdout.split()), line
