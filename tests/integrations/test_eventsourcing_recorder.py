"""What users of `eventsourcing` see of a Strandline log: their rules, our guarantees."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from eventsourcing.dcb.api import DCBAppendCondition, DCBEvent, DCBQuery, DCBQueryItem
from eventsourcing.dcb.popo import InMemoryDCBRecorder
from eventsourcing.persistence import IntegrityError, ProgrammingError
from hypothesis import given, settings
from hypothesis import strategies as st
from logs import settings_for
from queries import query, tagged
from school import CourseFull, Joining, School, join_all

from places import Place
from strandline import AppendConditionFailed, Event, Query
from strandline.integrations.eventsourcing import Factory, Recorder, Subscription
from strandline.testing import violations

SCHOOL = Path(__file__).with_name("school.py")


# Their semantics.

TYPES = ["A", "B", "C"]
TAGS = ["z", "y", "x:1", "x:2"]
types, tags = (st.lists(st.sampled_from(names), max_size=3) for names in (TYPES, TAGS))
events = st.lists(
    st.builds(DCBEvent, st.sampled_from(TYPES), st.binary(max_size=3), tags), min_size=1, max_size=3
)
queries = st.builds(DCBQuery, st.lists(st.builds(DCBQueryItem, types, tags), max_size=3))
positions = st.none() | st.integers(-1, 12)
appends = st.tuples(events, st.none() | st.builds(DCBAppendCondition, queries, positions))
reads = st.tuples(st.none() | queries, positions, st.none() | st.integers(0, 4))


def append(recorder: Any, events: list[DCBEvent], condition: DCBAppendCondition | None) -> int | None:
    try:
        return recorder.append(events, condition)
    except IntegrityError:
        return None


def test_every_answer_is_the_one_of_their_recorder(place: Place) -> None:
    @given(steps=st.lists(st.one_of(appends, reads), max_size=12))
    @settings(max_examples=20 if place.is_in_database else 60)
    def answers_agree(steps: list[Any]) -> None:
        factory = Factory(settings_for(place.another()))
        try:
            compare(factory.dcb_recorder(), InMemoryDCBRecorder(), steps)
        finally:
            factory.close()

    answers_agree()


def compare(ours: Recorder, theirs: InMemoryDCBRecorder, steps: list[Any]) -> None:
    for step in steps:
        if len(step) == 2:
            written, condition = step
            if condition is not None and condition.after is not None:
                condition.after = min(condition.after, len(theirs.events))
            assert append(ours, written, condition) == append(theirs, written, condition)
        else:
            asked, after, limit = step
            answer, expected = (one.read(asked, after=after, limit=limit) for one in (ours, theirs))
            assert (answer.head, list(answer)) == (expected.head, list(expected))


def test_a_long_read_comes_in_pages_and_its_head_is_known_at_once(recorder: Recorder) -> None:
    recorder.append([DCBEvent("A", str(number).encode(), ["t"]) for number in range(6_000)])
    read = recorder.read(tagged("t"))
    assert read.head == 6_000
    recorder.append([DCBEvent("A", b"later", ["t"])])
    assert [int(event.event.data) for event in read] == list(range(6_000))


def test_data_comes_back_byte_for_byte(recorder: Recorder) -> None:
    data = [b"", bytes(range(256)), b'{"a": 1}', b"\xff\xfe"]
    recorder.append([DCBEvent("A", one) for one in data])
    assert [event.event.data for event in recorder.read()] == data


def test_tags_come_back_in_their_order_also_after_a_retag(recorder: Recorder) -> None:
    recorder.append([DCBEvent("A", b"", ["student:1", "course:1", "a"])])
    recorder.store.retag(1, add=["b"])
    recorder.store.retag(1, replace={"course": ["2"]})
    assert next(recorder.read()).event.tags == ["student:1", "a", "b", "course:2"]


def test_events_of_both_apis_are_in_one_log(recorder: Recorder) -> None:
    recorder.store.append(Event("A", {"n": 1}, tags=["t"], stream="s", metadata={"user": "u"}))
    recorder.append([DCBEvent("B", b"2", ["t"])])
    assert [event.event for event in recorder.read()] == [
        DCBEvent("A", b'{"n":1}', ["t"]),
        DCBEvent("B", b"2", ["t"]),
    ]
    assert [(event.type, event.data) for event in recorder.store.read()] == [("A", b'{"n":1}'), ("B", b"2")]


# Conflicts.


def test_a_retag_that_changes_what_a_decision_read_is_a_conflict(recorder: Recorder) -> None:
    recorder.append([DCBEvent("Joined", b"", ["course:1"])])
    head = recorder.read(tagged("course:2")).head
    recorder.store.retag(1, replace={"course": ["2"]})
    with pytest.raises(IntegrityError, match="retagged") as refusal:
        recorder.append([DCBEvent("Joined", b"", ["course:2"])], DCBAppendCondition(tagged("course:2"), head))
    assert isinstance(refusal.value.__cause__, AppendConditionFailed)
    assert refusal.value.__cause__.conflict.type == "$retagged"
    assert recorder.store.head() == 2


@pytest.mark.parametrize("asked", [tagged("course:3"), query((["Left"], []))])
def test_a_retag_that_changes_nothing_for_a_decision_is_no_conflict(
    recorder: Recorder, asked: DCBQuery
) -> None:
    recorder.append([DCBEvent("Joined", b"", ["course:1"])])
    recorder.store.retag(1, replace={"course": ["2"]})
    assert recorder.append([DCBEvent("Joined", b"")], DCBAppendCondition(asked, after=1)) == 3


def test_who_goes_on_reading_is_told_if_a_retag_changed_what_was_read(recorder: Recorder) -> None:
    recorder.append([DCBEvent("Joined", b"", ["course:1", "term:1"]), DCBEvent("Joined", b"", ["course:2"])])
    recorder.store.retag(1, replace={"course": ["2"]})
    recorder.append([DCBEvent("Joined", b"", ["course:2"])])
    for changed in (
        *(None, tagged("course:1"), tagged("course:2"), tagged("term:1"), query((["Joined"], []))),
        query((["Left"], ["x"]), (["Joined"], ["course:1"])),
    ):
        with pytest.raises(IntegrityError, match="the retag at position 3 changed an event"):
            recorder.read(changed, after=2)
    for unchanged in (tagged("term:2"), query((["Left"], []))):
        assert recorder.read(unchanged, after=2).head == 4
    assert [event.position for event in recorder.read(tagged("course:2"))] == [1, 2, 4]
    assert [event.position for event in recorder.read(tagged("course:2"), after=3)] == [4]
    assert [event.position for event in recorder.read(tagged("course:2"), after=1, limit=9)] == [2, 4]


def test_a_slice_that_is_advanced_twice_does_not_miss_a_retag(settings: dict[str, str]) -> None:
    with School(settings) as school:
        school.open("algebra", seats=1)
        school.open("biology", seats=1)
        school.join("bob", "biology")
        joining = school.repository.advance(Joining("ada", "algebra"))
        assert joining.free == 1
        school.recorder.store.retag(3, replace={"course": ["algebra"]})
        with pytest.raises(IntegrityError):
            school.repository.advance(joining)
        with pytest.raises(CourseFull):
            school.join("ada", "algebra")


def test_the_events_of_the_store_itself_are_never_seen_but_counted_in_the_head(recorder: Recorder) -> None:
    recorder.append([DCBEvent("A", b"", ["t"]), DCBEvent("A", b"", ["t"])])
    recorder.store.retag(Query.tag("t"), add=["u"])
    read = recorder.read()
    assert read.head == 3
    assert [event.position for event in read] == [1, 2]
    limited = recorder.read(limit=5)
    assert (limited.head, len(list(limited))) == (2, 2)
    recorder.append([DCBEvent("A", b"", ["t"])], DCBAppendCondition(tagged("t"), read.head))
    with recorder.subscribe() as subscription:
        assert [next(subscription).position for _ in range(3)] == [1, 2, 4]


def test_the_last_seat_is_sold_once_between_processes(kept_settings: dict[str, str]) -> None:
    courses, students = 12, 8
    with School(kept_settings) as school:
        for course in range(courses):
            school.open(f"c{course}", seats=1 + course % 3)
        command = [sys.executable, str(SCHOOL)]
        buyers = [
            subprocess.Popen(
                [*command, buyer, str(courses), str(students)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={"PYTHONPATH": ":".join(path for path in sys.path if path), **kept_settings},
            )
            for buyer in ("a", "b", "c")
        ]
        for buyer in buyers:
            assert buyer.stdout.readline() == "ready\n"
        for buyer in buyers:
            buyer.stdin.write("go\n")
            buyer.stdin.flush()
        told = [join_all(school, "d", courses, students)]
        told += [json.loads(buyer.communicate(timeout=120)[0]) for buyer in buyers]
        assert [buyer.returncode for buyer in buyers] == [0, 0, 0]
        assert school.sold() == {f"c{course}": 1 + course % 3 for course in range(courses)}
        assert sorted(school.joined()) == sorted(tuple(seat) for one in told for seat in one["joined"])
        assert violations(school.recorder.store) == []
        assert school.recorder.store.stats().appends == courses + sum(school.sold().values())
    assert sum(len(one["refused"]) for one in told) > 0


def test_what_is_recorded_is_there_after_reopening(kept_settings: dict[str, str]) -> None:
    with School(kept_settings) as school:
        school.open("algebra", seats=1)
        school.join("ada", "algebra")
    with School(kept_settings) as school:
        assert [*school.joined()] == [("ada", "algebra")]
        with pytest.raises(CourseFull):
            school.join("bob", "algebra")
        with pytest.raises(IntegrityError):
            school.open("algebra", seats=5)
        assert school.recorder.read().head == 2


# Subscriptions.


def follow(subscription: Subscription) -> tuple[threading.Thread, list[int]]:
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.extend(event.position for event in subscription))
    thread.start()
    return thread, seen


def test_a_subscription_gives_what_matches_and_ends_when_it_is_stopped(recorder: Recorder) -> None:
    recorder.append([DCBEvent("A", b"", ["t"]), DCBEvent("A", b"", ["u"])])
    subscription = recorder.subscribe(tagged("t"))
    thread, seen = follow(subscription)
    recorder.append([DCBEvent("A", b"", ["u"]), DCBEvent("A", b"", ["t"])])
    with recorder.subscribe(tagged("t"), after=1) as other:
        assert next(other).position == 4
    with pytest.raises(StopIteration):
        next(other)
    while len(seen) < 2:
        thread.join(0.01)
    subscription.stop()
    thread.join(30)
    assert not thread.is_alive()
    assert seen == [1, 4]


def test_a_waiting_subscription_ends_when_the_application_is_closed(settings: dict[str, str]) -> None:
    with School(settings) as school:
        thread, seen = follow(school.recorder.subscribe())
        school.open("algebra", seats=1)
        while not seen:
            thread.join(0.01)
    thread.join(30)
    assert not thread.is_alive()


def test_a_subscription_sees_what_another_application_records(kept_settings: dict[str, str]) -> None:
    with (
        School(kept_settings) as reading,
        School(kept_settings) as writing,
        reading.recorder.subscribe() as subscription,
    ):
        writing.open("algebra", seats=1)
        assert next(subscription).position == 1


def test_a_subscription_is_entered_once(recorder: Recorder) -> None:
    with recorder.subscribe() as subscription, pytest.raises(ProgrammingError):
        subscription.__enter__()
