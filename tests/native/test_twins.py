"""What is written in native code does what the Python code beside it does."""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import shutil
import struct
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strandline
from strandline import (
    AppendCondition,
    AppendConditionFailed,
    AppendRequest,
    DomainEvent,
    Event,
    InvalidEvent,
    Projection,
    Query,
    QueryItem,
    SequencedEvent,
    StrandlineError,
    TagId,
    append,
    command,
    event,
    on,
    query,
    speedups,
    upcast,
)
from strandline import codec as codec_of_values
from strandline.domain import appending, boundary, codec, projection, shape, usual
from strandline.domain.member import Member
from strandline.engine.postgres import binary
from strandline.engine.sqlite import cursor, recent


class CourseId(TagId): ...


class Text(str):
    __slots__ = ()


def can_build() -> bool:
    """Whether there is a compiler, and Python's headers."""
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    return (
        shutil.which(compiler) is not None and (Path(sysconfig.get_paths()["include"]) / "Python.h").exists()
    )


@pytest.mark.parametrize("name", speedups.NATIVE)
def test_it_is_there_where_it_can_be_built(name: str) -> None:
    assert (speedups.speedup(name) is not None) == can_build()


def test_nobody_has_to_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRANDLINE_NATIVE", "0")
    assert [speedups.speedup(name) for name in speedups.NATIVE] == [None] * len(speedups.NATIVE)


def outcome(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except (StrandlineError, TypeError) as error:
        return type(error), str(error)


names = st.one_of(
    st.sampled_from(
        ["a", "b", "course:c1", "$own", "", "é", "tab\t", "del\x7f", "x" * 256, "y" * 257, "\ud800", 7, None]
    ),
    st.text(max_size=5),
    st.builds(Text, st.text(min_size=1, max_size=3)),
    st.builds(CourseId, st.sampled_from(["c1", "c2"])),
)
lists = st.one_of(
    st.lists(names, max_size=5),
    st.lists(names, max_size=5).map(tuple),
    st.sampled_from(["word", None, ("a",) * 70, [str(number) for number in range(65)], {"a", "b"}]),
)


def both(make: Callable[[], Any]) -> tuple[Any, Any]:
    """What comes of it with native code, and without."""
    with pytest.MonkeyPatch.context() as patch:
        usual = outcome(make)
        patch.setattr(event, "native", None)
        patch.setattr(query, "native", None)
        patch.setattr(append, "native", None)
        return usual, outcome(make)


def fields(value: Any) -> Any:
    if isinstance(value, tuple):
        return value
    return {name: (type(getattr(value, name)), getattr(value, name)) for name in type(value).__slots__}


@given(names, st.one_of(st.binary(max_size=5), st.just({"a": 1}), st.just(bytearray(b"x"))), lists)
def test_events_are_filled_alike(type_: Any, data: Any, tags: Any) -> None:
    native, python = both(lambda: Event(type_, data, tags=tags))
    if isinstance(native, Event):
        assert isinstance(python, Event)
        assert fields(native) | {"raw_id": 0} == fields(python) | {"raw_id": 0}
        assert native.id.version == 7
    else:
        assert native == python


any_values = st.recursive(
    st.one_of(
        st.sampled_from(
            [None, True, 1, -(2**70), 1.5, float("nan"), float("inf"), "x", Text("x"), b"x", {1}]
        ),
        st.sampled_from([UUID(int=1), Decimal(1), datetime(2026, 1, 1, tzinfo=UTC)]),
    ),
    lambda inside: st.one_of(
        st.lists(inside, max_size=3),
        st.lists(inside, max_size=3).map(tuple),
        st.dictionaries(st.sampled_from(["a", "b", Text("c"), 1, None]), inside, max_size=3),
    ),
    max_leaves=6,
)


@given(any_values)
def test_what_is_json_beyond_doubt_is_json(value: Any) -> None:
    if codec_of_values._is_json(value):
        codec_of_values.check_json(value, "data", InvalidEvent)


@pytest.mark.parametrize("depth", [50, 99, 100, 101, 500])
def test_deep_data_is_json_alike(depth: int) -> None:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    assert codec_of_values._is_json(value) == (depth <= 100)
    assert Event("A", value).json() == value


@given(lists, lists)
def test_query_items_are_filled_alike(types: Any, tags: Any) -> None:
    native, python = both(lambda: QueryItem(types, tags))
    assert fields(native) == fields(python)


some_items = st.sampled_from(
    [
        QueryItem(),
        QueryItem(["A"]),
        QueryItem(["A"], ["x"]),
        QueryItem(where={"a": 1}),
        QueryItem(stream="s"),
        "no item",
    ]
)


@given(
    st.one_of(st.lists(some_items, max_size=10), st.lists(some_items, max_size=3).map(tuple), st.just(None))
)
def test_queries_are_filled_alike(items: Any) -> None:
    native, python = both(lambda: Query(items))
    assert fields(native) == fields(python)


some_queries = st.sampled_from([Query.all(), Query.tag("a"), QueryItem(), None])
some_positions = st.sampled_from([0, 7, -1, 2**63 - 1, 2**63, 2**200, True, 1.0, "1", None])


@given(some_queries, some_positions)
def test_conditions_are_filled_alike(query: Any, after: Any) -> None:
    native, python = both(lambda: AppendCondition(query, after))
    assert fields(native) == fields(python)


ONE = Event("A", b"1")
some_events = st.sampled_from([ONE, Event("B", b"", metadata={"user": "ada"}), "no event", None])
some_conditions = st.sampled_from([None, AppendCondition(Query.tag("a"), 7), Query.tag("a")])


@given(
    st.one_of(some_events, st.lists(some_events, max_size=3), st.lists(some_events, max_size=3).map(tuple)),
    some_conditions,
    st.sampled_from([None, "s"]),
    st.sampled_from([None, Query.all(), "no query"]),
)
def test_requests_are_filled_alike(events: Any, condition: Any, stream: Any, unless_exists: Any) -> None:
    native, python = both(lambda: AppendRequest(events, condition, stream, unless_exists))
    assert fields(native) == fields(python)


def test_a_request_has_no_more_events_than_an_append_may_have() -> None:
    for count in (append.MAX_EVENTS, append.MAX_EVENTS + 1):
        native, python = both(lambda count=count: AppendRequest([ONE] * count))  # type: ignore[misc]
        assert fields(native) == fields(python)
        assert isinstance(native, AppendRequest) == (count == append.MAX_EVENTS)


@given(
    st.lists(st.sampled_from([b"", b"12", b"123", b"1234"]), min_size=1, max_size=4),
    st.sampled_from([None, {"user": "ada"}]),
    st.integers(0, 8),
    st.sampled_from([3, 2**64, float("inf")]),
    st.sampled_from([tuple, list]),
)
def test_sizes_are_checked_alike(
    data: list[bytes], metadata: Any, limit_of_all: int, limit: Any, kind: Callable[..., Any]
) -> None:
    events = kind(Event("A", each, metadata=metadata) for each in data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(append, "MAX_APPEND_BYTES", limit_of_all)
        native, python = both(lambda: append.check_size(events, limit))
    assert native == python


class OwnEvent(Event):
    """With a place for more than an event has, so it is not laid out as one."""

    __slots__ = ("note", "other")


class OwnItem(QueryItem):
    __slots__ = ("note",)


class OwnQuery(Query):
    __slots__ = ("note",)


class OwnCondition(AppendCondition):
    __slots__ = ("note",)


def test_classes_of_users_are_taken_by_name(tmp_path: Path) -> None:
    course = OwnQuery([OwnItem(["A", "B"], ["course:c1"]), OwnItem(["A"], ["student:s1"])])
    with strandline.connect(f"sqlite:///{tmp_path}/own.db") as store:
        first = store.append(OwnEvent("A", b"1", tags=["student:s1"]), OwnCondition(course, 0))
        store.append(Event("A", b"2", tags=["student:s2"]))
        assert store.append(OwnEvent("B", b"3", tags=["course:c1"]), OwnCondition(course, first.position))
        with pytest.raises(AppendConditionFailed) as refused:
            store.append(OwnEvent("A", b"4"), OwnCondition(course, first.position))
        assert refused.value.conflict is not None
        assert refused.value.conflict.position == 3
        assert [(event.position, event.type, event.data) for event in store.read(course)] == [
            (1, "A", b"1"),
            (3, "B", b"3"),
        ]


class Joined(DomainEvent):
    course: CourseId
    others: list[CourseId] = []


class Left(DomainEvent):
    course: CourseId


class Joins(Projection):
    course: CourseId
    seen: list[tuple[str, int]] = []

    @on
    def joined(self, event: Joined, recorded: SequencedEvent) -> None:
        if "refused" in event.others:
            raise ValueError("not this one")
        self.seen.append((repr(event), recorded.position))


class Leaves(Projection):
    course: CourseId
    seen: list[str] = []

    @on
    def any(self, event: Joined | Left) -> None:
        self.seen.append(repr(event))


class Counts(Projection):
    course: CourseId
    count: int = 0

    @on
    def any(self, event: Joined | Left) -> None:
        self.count += 1


made_events = st.builds(
    lambda make, course, others, metadata: make(course, others).to_event(metadata=metadata),
    st.sampled_from([lambda c, o: Joined(course=c, others=o), lambda c, o: Left(course=c)]),
    st.sampled_from([CourseId("a"), CourseId("b"), CourseId("ab")]),
    st.lists(st.sampled_from([CourseId("a"), CourseId("ä"), CourseId("x"), CourseId("refused")]), max_size=2),
    st.sampled_from([None, {"user": "ada"}]),
)


@given(
    st.lists(st.one_of(made_events, st.just(Event("Other", b"1", tags=["course:a"]))), max_size=8),
    st.integers(0, 4),
)
def test_events_are_folded_alike(events: list[Event], head: int) -> None:
    recorded = [SequencedEvent.of(event, position, 0) for position, event in enumerate(events, 1)]

    def folded() -> Any:
        ahead = [Joins("a"), Counts("a"), Counts("b")]
        members = [Member.begin(each) for each in (*ahead, Leaves("a"), Leaves("b"), Counts("ä"))]
        for member in members[: len(ahead)]:
            member.head = head
        try:
            boundary.fold(members, recorded)
        except ValueError as error:
            return error.__notes__
        return [(vars(member.state), member.unsaved) for member in members]

    native = folded()
    with pytest.MonkeyPatch.context() as patch:
        for module in (boundary, shape, projection):
            patch.setattr(module, "native", None)
        assert native == folded()


class LoudId(TagId):
    @property
    def tag(self) -> str:
        return super().tag.upper()


class Loud(Projection):
    id: LoudId
    count: int = 0
    seen: dict[str, list[int]] = {}

    @on
    def any(self, event: Joined | Left) -> None: ...


class Pair(Projection):
    course: CourseId
    other: LoudId
    _seen: tuple[list[int], ...] = ([1],)

    @on
    def joined(self, event: Joined) -> None: ...

    @on(conflicts=False)
    def left(self, event: Left) -> None: ...


class All(Projection):
    count: int = 0

    @on
    def any(self, event: Joined) -> None: ...


keys = st.one_of(st.text(min_size=1, max_size=5), st.sampled_from(["x" * 260, "$", "é", "tab\t", "a"]))


@given(keys, keys, st.sampled_from([0, 7, 2**70]))
def test_members_of_a_boundary_are_made_alike(one: str, other: str, head: int) -> None:
    def made() -> Any:
        states = [Counts(one), Loud(one), Pair(one, other), All(), Counts(other)]
        members = boundary.begin_by_hand(states)
        for member in members:
            member.head = head
        copies = [member.copied_state() for member in members]
        return (
            [(state, [type(value) for value in vars(state).values()]) for state in states],
            [(member.state, member.name, fields(member.query), fields(member.item)) for member in members],
            boundary.unchanged(members),
            copies,
            [
                vars(copied)[name] is value
                for copied, state in zip(copies, states, strict=True)
                for name, value in vars(state).items()
            ],
        )

    native = outcome(made)
    with pytest.MonkeyPatch.context() as patch:
        for module in (boundary, shape, projection):
            patch.setattr(module, "native", None)
        assert native == outcome(made)


class Noted(DomainEvent):
    course: CourseId
    note: str | None = None
    score: float = 0.0


class Louder(DomainEvent):
    loud: LoudId


class Named(DomainEvent, stream="course"):
    course: CourseId


class Newer(DomainEvent, version=2):
    course: CourseId

    @staticmethod
    @upcast(1)
    def _same(data: dict[str, Any]) -> dict[str, Any]:
        return data


class Grouped(DomainEvent):
    courses: set[CourseId]


class Adding(DomainEvent):
    course: CourseId

    def to_event(self, **options: Any) -> Event:
        return super().to_event(**options).with_tags("added")


class Timed(DomainEvent):
    course: CourseId
    at: datetime | None = None


class OtherLeft(DomainEvent, type="Left"):
    course: CourseId


decided_events = st.one_of(
    st.builds(Left, course=st.builds(CourseId, keys)),
    st.builds(
        Noted,
        course=st.builds(CourseId, st.sampled_from(["a", "b"])),
        note=st.sampled_from([None, "null", "x", "\ud800"]),
        score=st.sampled_from([0.0, 1.5, float("nan"), "text"]),
    ),
    st.builds(Joined, course=st.just(CourseId("a")), others=st.just([CourseId("b")])),
    st.sampled_from(
        [
            Left(course="a"),  # type: ignore[arg-type]
            Louder(loud=LoudId("a")),
            Named(course=CourseId("a")),
            Newer(course=CourseId("a")),
            Grouped(courses={CourseId("a"), CourseId("b")}),
            Adding(course=CourseId("a")),
            Timed(course=CourseId("a")),
            Timed(course=CourseId("a"), at=datetime(2026, 1, 1, tzinfo=UTC)),
            Timed(course=CourseId("a"), at=datetime(2026, 1, 1)),  # noqa: DTZ001
            OtherLeft(course=CourseId("a")),
            Event("Left", b"{}", tags=["course:a"]),
            Event("Untagged", b"{}"),
        ]
    ),
)


@command
def decide_something(course: Counts) -> None: ...


@given(
    st.lists(
        st.sampled_from([Counts("a"), Counts("b"), Joins("a"), Pair("a", "b"), All()]), min_size=1, max_size=3
    ),
    st.lists(decided_events, min_size=1, max_size=3),
    st.sampled_from([0, 7]),
)
def test_what_a_command_appends_is_made_alike(
    projections: list[Projection], decided: list[Any], head: int
) -> None:
    def made() -> Any:
        members = boundary.begin(projections)
        for member in members:
            member.head = head
        request, written, told = appending.append_of(decide_something, members, decided, None)
        return (
            [fields(each) | {"raw_id": 0} for each in request.events],
            [(fields(each) | {"raw_id": 0}, type(read), read) for each, read in written],
            request.condition,
            (request.stream, request.unless_exists),
            list(told),
        )

    native = outcome(made)
    with pytest.MonkeyPatch.context() as patch:
        for module in (boundary, shape, projection, appending):
            patch.setattr(module, "native", None)
        assert native == outcome(made)


def test_the_usual_decision_is_the_one_that_is_made_in_native_code() -> None:
    if usual.native is None:
        assert not can_build()
        return
    members = usual.native.begin([Counts("a"), Leaves("b")])
    decided = [Left(course=CourseId("a")), Noted(course=CourseId("b"), note="x")]
    request, written = usual.native.append_of(members, decided, codec.ENCODER.encode)
    assert [read for _, read in written] == decided
    assert [each.tags for each in request.events] == [("course:a",), ("course:b",)]
    assert request.condition == boundary.unchanged(members)
    assert usual.native.begin([Loud("a")]) is None
    assert usual.native.append_of(members, [Event("Left", b"{}")], codec.ENCODER.encode) is None


class Odd(TagId):
    def __new__(cls, value: Any) -> Odd:
        return super().__new__(cls, f"odd {value}")


class Oddly(Projection):
    id: Odd
    count: int = 0

    @on
    def any(self, event: Joined) -> None: ...


@given(
    st.sampled_from([Counts, Loud, Pair, All, Oddly]), st.lists(st.one_of(names, st.integers()), max_size=2)
)
def test_projections_are_begun_alike(kind: Any, key: list[Any]) -> None:
    def made() -> Any:
        state = kind(*key)
        return vars(state), {name: type(value) for name, value in vars(state).items()}

    native = outcome(made)
    with pytest.MonkeyPatch.context() as patch:
        for module in (shape, projection):
            patch.setattr(module, "native", None)
        assert native == outcome(made)


@given(names)
def test_ids_are_decoded_alike(value: Any) -> None:
    if usual.native is None:
        assert not can_build()
        return
    for kind in (CourseId, object):
        native = outcome(lambda kind=kind: usual.native.decode_tag_id(kind, value))
        python = outcome(lambda kind=kind: codec._decode_other(kind, value))
        assert (type(native), native) == (type(python), python)


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["Opened", "Closed"]),
        st.lists(st.sampled_from(["a:1", "b:1", "ü:2"]), unique=True).map("\n".join),
        st.none() | st.just("s1"),
        st.none() | st.just("e1"),
    ),
    max_size=8,
)


@given(ROWS, st.booleans())
def test_recent_events_are_indexed_alike(rows: list[Any], are_known: bool) -> None:
    plain = speedups.speedup("strandline.engine.sqlite.plain")
    assert plain is not None
    listed = [(position, *row) for position, row in enumerate(rows, 6)]
    names = plain.names_in(listed)
    assert names == recent.names_in(listed)
    numbers = {name: number for number, name in enumerate(sorted(names), 1)}
    made = [recent.Segment(5), recent.Segment(5)]
    for segment, add_rows in zip(made, (plain.add_rows, recent.add_rows), strict=True):
        add_rows(segment, listed, numbers if are_known else {}, numbers.__getitem__)
    assert list(made[0].entries(0)) == list(made[1].entries(0))
    assert (made[0].head, made[0]._types) == (made[1].head, made[1]._types)


some_text = st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5), max_size=5)
some_bytes = st.lists(st.none() | st.binary(max_size=5), max_size=5)


@given(
    some_text,
    some_bytes,
    st.lists(st.integers(-(2**31), 2**31 - 1)),
    st.lists(st.integers(-(2**63), 2**63 - 1)),
)
def test_arrays_are_packed_alike(
    texts: list[str | None], data: list[bytes | None], small: list[int], great: list[int]
) -> None:
    def packed() -> list[binary.Value]:
        return [
            binary.text_array(texts),
            binary.text_array(tuple(map(Text, filter(None, texts)))),
            binary.bytes_array(data),
            binary.int_array(small),
            binary.bigint_array(great),
        ]

    with pytest.MonkeyPatch.context() as patch:
        native = packed()
        patch.setattr(binary, "_native", None)
        assert native == packed()


def test_what_no_array_takes_is_refused_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> list[bool]:
        outcomes = []
        for make in (
            lambda: binary.int_array([2**31]),
            lambda: binary.bigint_array([2**63]),
            lambda: binary.text_array(["\ud800"]),
        ):
            with contextlib.suppress(OverflowError, struct.error, UnicodeEncodeError):
                make()
                outcomes.append(False)
        return outcomes

    assert refused() == []
    monkeypatch.setattr(binary, "_native", None)
    assert refused() == []


@pytest.fixture(params=["native", "python"])
def own(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[cursor.Cursor]:
    if request.param == "python":
        monkeypatch.setattr(cursor, "_native", None)
    connection = apsw.Connection(":memory:")
    made = cursor.cursor(connection, is_patient=True)
    assert isinstance(made, cursor.ApswCursor) == (request.param == "python" or not can_build())
    made.rows("create table kept (id integer primary key, text text unique, data blob)")
    yield made
    made.close()
    connection.close()


INSERT = "insert into kept (id, text, data) values (?, ?, ?)"


def test_rows_come_back_as_they_went(own: cursor.Cursor) -> None:
    rows = [
        (1, "ä\x00b", b"\x00\xff"),
        (-(2**63), None, None),
        (2**63 - 1, "", b""),
        *((n, f"{n}", b"x") for n in range(2, 99)),
    ]
    own.insert(INSERT, rows)
    assert own.rows("select id, text, data from kept order by rowid") == sorted(rows)
    assert own.slow_rows("select id from kept where text = ?1", ("7",)) == [(7,)]


def test_arrays_are_found_whatever_their_place(own: cursor.Cursor) -> None:
    own.insert(INSERT, [(number, f"{number}", bytes([number])) for number in range(10)])
    both_arrays = "select id from kept where id in (select value from carray(?3)) and id > ?2 and id in (select value from carray(?1))"
    assert own.rows(both_arrays, ([1, 3, 5, 7], 2, [5, 6, 7])) == [(5,), (7,)]
    by_data = "select id from carray(?1) wanted cross join kept on data = wanted.value"
    assert own.rows(by_data, ([b"\x03", b"\x01", b"\x33"],)) == [(3,), (1,)]


def test_errors_are_those_of_apsw(own: cursor.Cursor) -> None:
    own.insert(INSERT, [(1, "a", None)])
    with pytest.raises(apsw.ConstraintError, match="UNIQUE"):
        own.insert(INSERT, [(2, "b", None), (3, "a", None)])
    with pytest.raises(apsw.SQLError, match="nothing"):
        own.rows("select nothing")
    with pytest.raises((apsw.BindingsError, TypeError)):
        own.rows("select ?1, ?2", (1,))
    with pytest.raises(TypeError):
        own.rows("select ?1", (object(),))
    assert own.rows("select count(*) from kept")[0][0] in {1, 2}  # there is no transaction around them


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[int]:
    """A file that is locked."""
    file = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(file, fcntl.LOCK_EX)
    yield file
    os.close(file)


def may_lock(path: Path) -> bool:
    with (path / "lock").open() as other:
        try:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def test_a_commit_takes_the_last_rows_along_and_lets_go_of_the_lock(
    own: cursor.Cursor, locked: int, tmp_path: Path
) -> None:
    own.begin(100)
    own.insert(INSERT, [(1, "a", None)])
    assert not may_lock(tmp_path)
    rows = [(number, f"{number}", None) for number in range(2, 40)]
    own.commit([(INSERT, rows), (INSERT, []), (INSERT, [(40, "z", b"")])], locked)
    assert may_lock(tmp_path)
    own.begin(100)  # no transaction is open
    own.rows("rollback")
    assert own.rows("select count(*), max(id) from kept") == [(40, 40)]


def test_a_commit_whose_rows_are_refused_keeps_the_lock(
    own: cursor.Cursor, locked: int, tmp_path: Path
) -> None:
    own.begin(100)
    with pytest.raises(apsw.ConstraintError, match="UNIQUE"):
        own.commit([(INSERT, [(1, "a", None)]), (INSERT, [(2, "a", None)])], locked)
    assert not may_lock(tmp_path)
    own.rows("rollback")
    assert own.rows("select count(*) from kept") == [(0,)]


@pytest.mark.parametrize("which", ["native", "python"])
def test_who_begins_to_write_waits_for_somebody_who_does(
    which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if which == "python":
        monkeypatch.setattr(cursor, "_native", None)
    path = str(tmp_path / "some.db")
    somebody, connection = apsw.Connection(path), apsw.Connection(path)
    connection.set_busy_timeout(PATIENCE)
    own = cursor.cursor(connection, is_patient=False)
    somebody.execute("begin immediate")
    ends = threading.Timer(0.05, lambda: somebody.execute("commit"))
    ends.start()  # which it can only if who waits lets other threads run
    own.begin(PATIENCE)
    own.rows("rollback")
    ends.join()
    somebody.execute("begin immediate")
    connection.set_busy_timeout(1)
    with pytest.raises(apsw.BusyError):
        own.begin(1)
    own.close()


PATIENCE = 20_000


def test_a_closed_cursor_says_so(own: cursor.Cursor) -> None:
    own.rows("select 1")
    own.close()
    with pytest.raises(apsw.Error):
        own.rows("select 1")


def test_a_sqlite_that_loads_no_extensions_has_the_cursor_of_apsw(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing:
        def Cursor(self, connection: object, is_patient: bool) -> object:
            raise apsw.ExtensionLoadingError("not allowed")

    monkeypatch.setattr(cursor, "_native", Refusing())
    assert isinstance(cursor.cursor(apsw.Connection(":memory:"), is_patient=True), cursor.ApswCursor)


def test_conditions_do_not_wait_for_the_garbage_collector() -> None:
    """One that referred to itself would be left to it, with every query in it."""
    condition = AppendCondition(Query.tag("a"), 1)
    assert gc.get_referrers(condition) == []
    assert condition.parts == (condition,)


ENGINES = [f"tests/test_{name}.py" for name in ("conformance", "stateful", "model", "races")]


@pytest.mark.parametrize(("some", "tests"), [("sqlite", ENGINES), ("not postgres", ["tests/domain"])])
def test_engines_and_decisions_pass_their_tests_without_native_code(some: str, tests: list[str]) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", some, *tests],
        cwd=Path(strandline.__file__).parents[2],
        env={**os.environ, "STRANDLINE_NATIVE": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-3000:]
