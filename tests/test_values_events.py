"""Events as values: what goes in, what comes out, their JSON form."""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
import math
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import StrEnum
from random import choice
from typing import Any
from uuid import RFC_4122, UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline import (
    AppendCondition,
    AppendConditionFailed,
    AppendRequest,
    Event,
    InvalidEvent,
    InvalidInput,
    InvalidQuery,
    Query,
    QueryItem,
    SequencedEvent,
    connect,
)
from strandline.codec import MAX_NESTING
from strandline.event import new_id, to_microseconds, uuid7
from strandline.testing import strategies

NOW = to_microseconds(datetime(2026, 5, 1, 12, 30, 0, 123_456, tzinfo=UTC))


@given(strategies.events())
def test_the_json_form_of_an_event_reads_back_as_itself(event: Event) -> None:
    text = event.to_json()
    assert Event.from_json(text) == event
    assert Event.from_json(text.encode()).to_json() == text
    assert "\n" not in text


@given(strategies.events(), st.integers(1, 2**53))
def test_the_json_form_of_a_sequenced_event_reads_back_as_itself(event: Event, position: int) -> None:
    sequenced = SequencedEvent.of(event, position, NOW)
    assert SequencedEvent.from_json(sequenced.to_json()) == sequenced
    assert Event.from_json(sequenced.to_json()) == event


@given(strategies.events())
def test_the_json_form_has_sorted_keys_and_is_json(event: Event) -> None:
    fields = json.loads(event.to_json())
    assert list(fields) == sorted(fields)
    assert ("data" in fields) != ("data_base64" in fields)


@given(strategies.events())
def test_events_can_be_copied_and_pickled(event: Event) -> None:
    for twin in (pickle.loads(pickle.dumps(event)), copy.copy(event), copy.deepcopy(event)):
        assert twin == event
        assert hash(twin) == hash(event)
    sequenced = SequencedEvent.of(event, 7, NOW)
    assert pickle.loads(pickle.dumps(sequenced)) == sequenced


@given(strategies.json_values())
def test_json_data_comes_back_as_it_was(value: object) -> None:
    assert Event("A", value).json() == value
    assert SequencedEvent.of(Event("A", value), 1, NOW).json() == value


def test_a_sequenced_event_has_all_of_the_event() -> None:
    event = Event("A", {"n": 1}, tags=["x"], metadata={"by": "me"}, stream="s", subject="u")
    sequenced = SequencedEvent.of(event, 3, NOW)
    names = ("type", "data", "tags", "id", "metadata", "stream", "subject")
    assert all(getattr(sequenced, name) == getattr(event, name) for name in names)
    assert sequenced.recorded_at == datetime(2026, 5, 1, 12, 30, 0, 123_456, tzinfo=UTC)


def test_tags_are_sorted_and_without_repeats() -> None:
    assert Event("A", {}, tags=["b", "a", "b"]).tags == ("a", "b")
    assert Event("A", {}, tags={"b", "a"}).tags == ("a", "b")
    assert Event("A", {}, tags=(tag for tag in "ba")).tags == ("a", "b")


def test_data_may_be_bytes_of_any_kind() -> None:
    for data in (b"x", bytearray(b"x"), memoryview(b"x")):
        assert Event("A", data).data == b"x"


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"1 2", b"[" * 200_000])
def test_data_that_is_not_json_says_so(data: bytes) -> None:
    with pytest.raises(InvalidEvent, match="JSON"):
        Event("A", data).json()


def test_data_can_be_null_and_empty() -> None:
    for value in (None, {}, [], "", 0, False):
        assert Event("A", value).json() == value
        assert Event.from_json(Event("A", value).to_json()).json() == value


def test_an_event_does_not_change() -> None:
    event = Event("A", {}, tags=["x"])
    for change in (lambda: setattr(event, "type", "B"), lambda: delattr(event, "tags")):
        with pytest.raises(AttributeError):
            change()
    metadata = {"by": "me"}
    event = Event("A", {}, metadata=metadata)
    metadata["by"] = "you"
    assert event.metadata == {"by": "me"}
    request = AppendRequest(event)
    with pytest.raises(AttributeError):
        request.events = ()  # type: ignore[misc]
    assert request == AppendRequest([event]) != AppendRequest(event, stream="s")


def test_with_tags_adds_to_the_same_event() -> None:
    event = Event("A", {}, tags=["x"])
    assert event.with_tags("y", "x").tags == ("x", "y")
    assert event.with_tags("y").id == event.id
    with pytest.raises(InvalidEvent):
        event.with_tags("$y")
    with pytest.raises(InvalidEvent, match="64"):
        event.with_tags(*(f"t:{n}" for n in range(64)))


def test_ids_are_new_unless_given() -> None:
    ids = [Event("A", {}).id for _ in range(1_000)]
    assert len({*ids}) == 1_000
    assert Event("A", {}, id=str(ids[0])).id == ids[0]
    assert Event("A", {}, id=f"{{{ids[0]}}}").id == ids[0]


def test_new_ids_are_of_version_7_and_ordered_by_time() -> None:
    made = [Event("A", {}).id for _ in range(200)]
    assert {one.version for one in made} == {7}
    assert {one.variant for one in made} == {UUID(int=1 << 63).variant}
    milliseconds = [one.int >> 80 for one in made]
    assert milliseconds == sorted(milliseconds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "7",
        "{",
        "{}",
        '{"type":"A"}',
        '{"data":{}}',
        '{"type":"A","data":{},"more":1}',
        '{"type":"$A","data":{}}',
        '{"type":7,"data":{}}',
        '{"type":"A","data":{},"tags":"x"}',
        '{"type":"A","data":{},"tags":[1]}',
        '{"type":"A","data":{},"id":"x"}',
        '{"type":"A","data_base64":"x"}',
        '{"type":"A","data_base64":7}',
        '{"type":"A","data":{},"metadata":[]}',
        '{"type":"A","data":{},"metadata":{"a":1}}',
        '{"type":"A","data":{},"stream":7}',
        b"\xff",
        "[" * 200_000,
    ],
)
def test_text_that_is_no_event_is_an_invalid_event(text: str | bytes) -> None:
    with pytest.raises(InvalidEvent):
        Event.from_json(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"A","data":{}}',
        '{"type":"A","data":{},"position":1,"recorded_at":"2026-01-01T00:00:00"}',
        '{"type":"A","data":{},"position":"x","recorded_at":"2026-01-01T00:00:00Z"}',
        '{"type":"A","data":{},"position":1,"recorded_at":7}',
        '{"type":"A","data":{},"position":1,"recorded_at":"2026-01-01T00:00:00Z"}',
        *[
            f'{{"id":"{UUID(int=7)}","position":1,"recorded_at":"2026-01-01T00:00:00Z",{wrong}}}'
            for wrong in (
                '"type":7,"data":{}',
                '"type":"A","data":{},"tags":5',
                '"type":"A","data":{},"tags":[1]',
                '"type":"A","data":{},"stream":[]',
                '"type":"A","data":{},"metadata":{"a":1}',
            )
        ],
        "[]",
    ],
)
def test_text_that_is_no_sequenced_event_is_an_invalid_event(text: str) -> None:
    with pytest.raises(InvalidEvent):
        SequencedEvent.from_json(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"type":"A"}', "an event lacks its data"),
        ("{}", "an event lacks its type and its data"),
        ('{"type":"A","data":{},"more":1}', "has unknown fields: ['more']"),
    ],
)
def test_what_an_event_lacks_is_said(text: str, told: str) -> None:
    with pytest.raises(InvalidEvent, match=re.escape(told)):
        Event.from_json(text)


class Text(str):
    __slots__ = ()


class Weekday(StrEnum):
    MONDAY = "mon"


class Measured(msgspec.Struct):
    celsius: float


@dataclasses.dataclass
class Noted:
    measured: list[Measured]


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_json_cannot_say_is_refused_wherever_it_is(number: float) -> None:
    for data in (number, {"a": (number,)}, [{"a": [1, number]}], {"a": Decimal(number)}):
        with pytest.raises(InvalidEvent, match="no NaN and no infinity"):
            Event("Measured", data)
    assert Event("Measured", {"celsius": None, "at": 1.5}).json()["celsius"] is None


DEEP: Any = functools.reduce(lambda inside, _: [inside], range(150), 1)


@pytest.mark.parametrize(
    "data",
    [
        {"a": [1, -1.5, "x", True, None, {}, [], ()]},
        {"at": datetime(2026, 1, 1, tzinfo=UTC), "id": UUID(int=7), "price": Decimal("1.10")},
        {Text("a"): Text("b")},
        {"a": Weekday.MONDAY},
        DEEP,
        "x",
        None,
    ],
)
def test_data_is_a_json_value_or_a_time_an_id_or_a_decimal_as_text(data: object) -> None:
    assert Event("A", data).json() == msgspec.json.decode(msgspec.json.encode(data, enc_hook=str))


def test_times_ids_and_decimals_become_text() -> None:
    data = {"at": datetime(2026, 1, 1, tzinfo=UTC), "id": UUID(int=7), "price": Decimal("1.10")}
    assert Event("A", data).json() == {
        "at": "2026-01-01T00:00:00Z",
        "id": "00000000-0000-0000-0000-000000000007",
        "price": "1.10",
    }


@pytest.mark.parametrize(
    ("data", "message", "hint"),
    [
        (
            {"a": b"x"},
            "data.a: a value of the type bytes has no JSON form: b'x'",
            "write text: base64.b64encode(…).decode()",
        ),
        (
            {"a": [{"b": {1, 2}}]},
            "data.a[0].b: a value of the type set has no JSON form: {1, 2}",
            "write a list: sorted(…)",
        ),
        (
            {1: "a"},
            "data has the name 1, and names in a JSON object are text",
            "write '1': …, or a list of pairs",
        ),
        (
            {"a": {None: 1}},
            "data.a has the name None, and names in a JSON object are text",
            "write 'None': …, or a list of pairs",
        ),
        (
            {"at": datetime(2026, 12, 1, 20)},  # noqa: DTZ001
            "data.at is a time without a zone: 2026-12-01 20:00:00",
            "say which zone is meant: when.replace(tzinfo=UTC), or when.astimezone() if it is this machine's",
        ),
        (
            {"on": date(2026, 12, 1)},
            "data.on: a value of the type date has no JSON form: datetime.date(2026, 12, 1)",
            "write what it consists of: text, numbers, lists and dicts",
        ),
        (
            Noted([]),
            "data: a value of the type Noted has no JSON form: Noted(measured=[])",
            "write what it consists of: text, numbers, lists and dicts",
        ),
        (
            Measured(1.5),
            "data: a value of the type Measured has no JSON form: Measured(celsius=1.5)",
            "write what it consists of: text, numbers, lists and dicts",
        ),
    ],
)
def test_what_json_would_change_is_refused_with_its_place(data: object, message: str, hint: str) -> None:
    with pytest.raises(InvalidEvent) as refused:
        Event("A", data)
    assert (str(refused.value), refused.value.hint) == (message, hint)


@pytest.mark.parametrize("read", [Query.from_json, AppendCondition.from_json, Event.from_json])
def test_what_is_no_text_is_not_the_form_of_a_value(read: Callable[[Any], object]) -> None:
    with pytest.raises(InvalidInput, match="not the JSON form") as told:
        read(None)
    assert told.value.hint


def test_an_event_needs_only_a_type_and_data_as_json() -> None:
    event = Event.from_json('{"type":"A","data":{"b":1, "a":2}}')
    assert (event.type, event.data, event.tags, event.stream) == ("A", b'{"b":1, "a":2}', (), None)


def test_embedded_data_is_kept_byte_for_byte() -> None:
    event = Event("A", b'{"b":1,  "a":1.0}')
    assert '"data":{"b":1,  "a":1.0}' in event.to_json()
    assert Event.from_json(event.to_json()).data == event.data


@pytest.mark.parametrize("data", [b' {"a":1}', b'{"a":\n1}', b"", b"\xff", b'{"a":1}\r\n'])
def test_data_that_a_line_cannot_carry_travels_as_base64(data: bytes) -> None:
    event = Event("A", data)
    assert "data_base64" in event.to_json()
    assert Event.from_json(event.to_json()).data == data


@pytest.mark.parametrize("when", [datetime(2026, 1, 1), None, 7, "now"])  # noqa: DTZ001
def test_a_time_without_a_zone_is_refused(when: object) -> None:
    with pytest.raises(InvalidInput):
        to_microseconds(when)  # type: ignore[arg-type]


def any_id() -> bytes:
    """As if some processes had native code, and some not."""
    return choice([new_id, uuid7])()


@pytest.mark.parametrize(
    "make",
    [lambda: Event("A", 0).raw_id, uuid7, any_id],
)
def test_ids_are_in_order_of_time_and_of_version_7(make: Callable[[], bytes]) -> None:
    ids = [UUID(bytes=make()) for _ in range(1_000)]
    assert len(set(ids)) == 1_000
    assert {(id_.version, id_.variant) for id_ in ids} == {(7, RFC_4122)}
    stamps = [id_.int >> 64 for id_ in ids]
    assert stamps == sorted(stamps)


@pytest.mark.parametrize("native", ["0", "1"])
def test_a_forked_process_makes_ids_of_its_own(native: str) -> None:
    """Random bits that were asked for before the fork are used by one of the two only."""
    made = subprocess.run(
        [sys.executable, "-c", FORK],
        env={**os.environ, "STRANDLINE_NATIVE": native},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    parent, child = made.stdout.split()
    assert parent != child


FORK = """
import os
from strandline.event import new_id

new_id()
half = slice(8, None)  # the other half is the time
child = os.fork()
if child:
    os.waitpid(child, 0)
print(new_id()[half].hex(), flush=True)
"""


def on_an_empty_stack(ask: Callable[[], Any]) -> Any:
    """What is answered where no test runner is among the callers."""
    with ThreadPoolExecutor() as pool:
        return pool.submit(ask).result()


def at_depth(calls: int, ask: Callable[[], Any]) -> Any:
    """What is answered that many calls further down."""
    return ask() if calls == 0 else at_depth(calls - 1, ask)


def nested(levels: int) -> bytes:
    return b'{"k":1,"text":"[[[\\"[","d":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


@pytest.mark.parametrize(("levels", "name"), [(MAX_NESTING, "data"), (MAX_NESTING + 1, "data_base64")])
def test_how_deeply_data_is_nested_decides_its_form(levels: int, name: str) -> None:
    for event in (Event("A", nested(levels)), SequencedEvent.of(Event("A", nested(levels)), 1, NOW)):
        fields = on_an_empty_stack(lambda event=event: json.loads(event.to_json()))
        assert name in fields


def test_the_form_of_nested_data_never_depends_on_the_stack() -> None:
    event = Event("A", nested(600))
    assert '"data":' in on_an_empty_stack(event.to_json)
    with suppress(InvalidEvent):  # where Python counts the calls of C code apart, there is room (3.12)
        assert '"data":' in on_an_empty_stack(lambda: at_depth(500, event.to_json))


def test_a_matcher_that_cannot_look_at_nested_data_raises_and_misses_no_conflict() -> None:
    query = Query.of(QueryItem(where={"k": 1}))
    with connect("memory:") as store:
        store.append(Event("A", nested(600)))
        assert on_an_empty_stack(lambda: store.count(query)) == 1
        with pytest.raises((InvalidQuery, AppendConditionFailed)):
            on_an_empty_stack(
                lambda: at_depth(500, lambda: store.append(Event("B", {}), AppendCondition(query, after=0)))
            )
        assert store.head() == 1


@pytest.mark.parametrize(("levels", "expected"), [(MAX_NESTING, True), (MAX_NESTING + 1, False)])
def test_a_matcher_looks_so_deep_and_no_deeper(levels: int, *, expected: bool) -> None:
    item = QueryItem(where={"k": 1})
    assert on_an_empty_stack(lambda: item.matches(Event("A", nested(levels)))) is expected
