"""Read models: a table that is always what the fold of the log is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import lessons
import pytest
from lessons import (
    Course,
    CourseId,
    Everything,
    Filled,
    Newest,
    Seat,
    define,
    join,
    other_version,
    running,
    table_in,
)

from newest import kept
from places import Place
from strandline import Event, EventStore, Projection, on
from strandline.errors import FollowerFailed, InvalidEvent, InvalidInput, NotFound, Unavailable
from strandline.follow import ReadModel

place = kept  # a store in memory has no tables


def test_the_table_is_the_fold(place: Place, store: EventStore) -> None:
    courses = ReadModel(Course, table=table_in(place))
    store.append([define("c1"), join("s1", "c1", "c2"), define("c3", 1)])
    assert courses.catch_up(store) == 3
    assert courses.get("c1") == store.project(Course, "c1")
    assert courses.get(CourseId("c2")) == store.project(Course, "c2")
    assert courses.get("nowhere") is None
    store.append(join("s2", "c1", "c3"))
    courses.catch_up(store)
    assert courses.get("c1") == store.project(Course, "c1")
    full = courses.find("taken >= capacity", order_by="course desc")
    assert full == [store.project(Course, "c3"), store.project(Course, "c2")]
    mark = "%s" if place.is_in_database else "?"
    assert courses.find(f"capacity > {mark}", (1,), limit=5) == [store.project(Course, "c1")]
    assert courses.find(order_by="taken desc, course", limit=1) == [store.project(Course, "c1")]
    assert courses.status().lag == 0


def test_a_worker_keeps_it_live(place: Place, store: EventStore) -> None:
    model = ReadModel(Course, table=table_in(place))
    worker = model.worker(store)
    store.append([define("c1"), join("s1", "c1")])
    assert worker.catch_up() == 2
    assert model.find() == [store.project(Course, "c1")]
    with pytest.raises(FollowerFailed, match="another version"):
        ReadModel(other_version(), table=model.table).worker(store)


def test_columns_are_typed(place: Place, store: EventStore) -> None:
    model = ReadModel(Course, table=table_in(place))
    store.append([define("c1", 7), join("s1", "c1")])
    model.catch_up(store)
    ((course, capacity, students, position),) = store.engine.rows(
        f"select course, capacity + 1, cast(students as text), position from {model.table}"
    )
    assert (course, capacity, students, position) == ("c1", 8, '["s1"]', 2)


def test_two_keys_get_every_combination(place: Place, store: EventStore) -> None:
    model = ReadModel(Seat, table=table_in(place))
    store.append([join("s1", "c1", "c2"), join("s2", "c1"), join("s1", "c1")])
    model.catch_up(store)
    found = model.find(order_by="course, student")
    keys = [("c1", "s1"), ("c1", "s2"), ("c2", "s1")]
    assert found == [store.project(Seat, *key) for key in keys]
    assert model.get("c1", "s1") == found[0]


def test_what_is_last_only_has_its_newest_event(place: Place, store: EventStore) -> None:
    model = ReadModel(Newest, table=table_in(place))
    store.append([define("c1"), join("s1", "c1")])
    model.catch_up(store)
    store.append(define("c1"))
    model.catch_up(store)
    assert model.get("c1") == store.project(Newest, "c1")
    store.retag(3, replace={"course": ["c2"]})
    model.catch_up(store)
    assert model.find(order_by="course") == [store.project(Newest, "c1"), store.project(Newest, "c2")]


def test_a_retag_moves_what_was_folded(place: Place, store: EventStore) -> None:
    model = ReadModel(Course, table=table_in(place))
    store.append([define("c1"), join("s1", "c1"), join("s2", "c9")])
    model.catch_up(store)
    store.retag(2, replace={"course": ["c2"]})
    store.retag(3, replace={"course": ["c3"]})
    store.retag(3, replace={"course": ["c2"]})
    model.catch_up(store, 1)
    assert model.find(order_by="course") == [store.project(Course, "c1"), store.project(Course, "c2")]
    assert model.get("c9") is None


def test_retags_of_both_keys_before_they_are_delivered(place: Place, store: EventStore) -> None:
    model = ReadModel(Seat, table=table_in(place))
    store.append(join("s1", "c1"))
    model.catch_up(store)
    store.retag(1, replace={"course": ["c2"]})
    store.retag(1, replace={"student": ["s2"]})
    model.catch_up(store, 1)
    assert model.find() == [store.project(Seat, "c2", "s2")]


def test_a_reset_follower_counts_nothing_twice(place: Place, store: EventStore) -> None:
    model = ReadModel(Course, table=table_in(place))
    store.append([define("c1"), join("s1", "c1")])
    model.catch_up(store)
    made = model._used
    made.follower.reset(0)
    model.catch_up(store, 1)
    assert model.get("c1") == store.project(Course, "c1")


def test_every_type_comes_back_as_it_was(place: Place, store: EventStore) -> None:
    usual: dict[str, Any] = {
        "number": 5,
        "share": 0.1,
        "is_open": True,
        "title": "Äpfel 🍏",
        "other": CourseId("c2"),
        "moment": datetime(2026, 11, 15, 12, 30, 0, 123456, tzinfo=UTC),
        "price": Decimal("12.340"),
        "id": UUID(int=7),
        "raw": b"\0\xff",
        "level": lessons.Level.HIGH,
        "color": lessons.Color.BLUE,
        "names": ["a", "\0"],
        "counts": {"x": 1},
        "mixed": "text",
    }
    east = timezone(timedelta(hours=5, minutes=30))
    odd: list[dict[str, Any]] = [
        {"number": 1 << 70, "share": 3, "title": "a\0b", "price": Decimal("1E+3")},
        {"number": -(1 << 63), "share": -0.0, "moment": datetime(2026, 1, 1, 3, tzinfo=east)},
        {
            "share": 1e300,
            "moment": datetime(2026, 1, 1, 3, tzinfo=UTC).replace(tzinfo=None),
            "price": Decimal("-0.00"),
        },
        {"title": None, "mixed": 3, "price": Decimal("0.1000000000000000000000000001")},
        {"share": 1 << 60, "moment": datetime(1, 1, 1, tzinfo=UTC), "raw": b"", "level": lessons.Level.LOW},
    ]
    lessons.STATES[:] = [usual, *odd]
    for number in range(len(lessons.STATES)):
        store.append(Filled(course=CourseId(f"c{number}"), number=number))
    model = ReadModel(Everything, table=table_in(place))
    model.catch_up(store)
    for number in range(len(lessons.STATES)):
        got, expected = model.get(f"c{number}"), store.project(Everything, f"c{number}")
        assert got == expected
        assert [type(value) for value in vars(got).values()] == [
            float if name == "share" else type(value) for name, value in vars(expected).items()
        ]
    assert [state.number for state in model.find("price > 12.3 and is_open")] == [5]


def test_a_state_that_would_change_is_refused(place: Place, store: EventStore) -> None:
    lessons.STATES[:] = [{"counts": {1: 2}}]
    store.append(Filled(course=CourseId("c1"), number=0))
    model = ReadModel(Everything, table=table_in(place))
    with pytest.raises(FollowerFailed, match="does not come back") as raised:
        model.catch_up(store)
    assert isinstance(raised.value.__cause__, InvalidEvent)
    lessons.STATES[:] = [{"counts": {"1": 2}}]
    model.catch_up(store)
    assert model.find() == [store.project(Everything, "c1")]


def test_waiting_for_a_position(place: Place, store: EventStore) -> None:
    model, reader = (ReadModel(Course, table=table_in(place)) for _ in range(2))
    reader.use(store)
    with pytest.raises(Unavailable, match="not made yet"):
        reader.wait_for(0, timeout=0.01)
    with running(model, store) as outcome:
        for number in range(5):
            position = store.append(join(f"s{number}", "c1")).position
            reader.wait_for(position)
            found = reader.get("c1")
            assert found is not None
            assert found.taken == number + 1
        unrelated = store.append(Event("Other", {})).position
        reader.wait_for(unrelated)
        with pytest.raises(Unavailable, match="not up to 99"):
            reader.wait_for(99, timeout=0.05)
        assert not outcome
        with pytest.raises(Unavailable, match="is not up to 1000000000, for the head of this log is 6"):
            reader.wait_for(10**9, timeout=600)
    assert outcome[0] in {5, 6}  # nothing matches event 6: it may end before it has looked at it


def test_the_same_for_asyncio(place: Place) -> None:
    model = ReadModel(Course, table=table_in(place))

    async def main() -> None:
        async with place.connect_async() as store:
            run = asyncio.ensure_future(model.run(store))
            position = (await store.append([define("c1"), join("s1", "c1")])).position
            await model.wait_for(position, store=store)
            expected = await store.project(Course, "c1")
            assert await model.get("c1", store=store) == expected
            assert await model.find("taken = 1", store=store) == [expected]
            assert await model.rebuild(store)
            await model.wait_for((await store.append(join("s2", "c1"))).position, store=store)
            assert await model.get("c1", store=store) == await store.project(Course, "c1")
            model.stop()
            assert await run == 3
            assert (await model.status(store=store)).lag == 0

    asyncio.run(main())


def test_a_table_of_somebody_else_is_left_alone(place: Place, store: EventStore) -> None:
    model = ReadModel(Course, table=table_in(place))
    tx = store.engine.transaction()
    tx.begin()
    tx.execute(f"create table {model.table} (x text)")
    tx.commit()
    tx.end()
    for call in (model.catch_up, model.rebuild):
        with pytest.raises(InvalidInput, match="there is a table"):
            call(store)
    assert store.engine.followers() == []
    assert store.engine.rows(f"select * from {model.table}") == []


def test_bad_sql_is_told_and_changes_nothing(place: Place, store: EventStore) -> None:
    model = ReadModel(Course, table=table_in(place))
    model.use(store)
    with pytest.raises(NotFound):
        model.get("c1")
    store.append(define("c1"))
    model.catch_up(store)
    last = f"delete from {model.table}; select * from {model.table} where (1 = 1"
    for where in (
        "nonsense !",
        f"true); {last}",
        f"true); pragma query_only = off; {last}",
        f"true); commit; {last}",
        f"true); set transaction read write; {last}",
    ):
        with pytest.raises(InvalidInput, match="does not take"):
            model.find(where)
    for order_by in ("course; drop table x", "(select 1)", "unknown", "course sideways", 'course" desc'):
        with pytest.raises(InvalidInput):
            model.find(order_by=order_by)
    with pytest.raises(InvalidInput, match="limit"):
        model.find(limit=-1)
    with pytest.raises(InvalidInput):
        model.get("c1", "c2")
    assert len(model.find()) == 1


@pytest.mark.parametrize(
    "table", ["", "a b", 'a"b', "Courses", "1a", "a;b", "x" * 59, "sqlite_x", "pg_x", "é", 5]
)
def test_bad_names_of_tables(table: Any) -> None:
    with pytest.raises(InvalidInput, match="cannot be the name of a table"):
        ReadModel(Course, table=table)


def test_what_cannot_be_a_read_model(new_place: Callable[[str], Place]) -> None:
    class Positioned(Projection):
        course: CourseId
        position: int = 0

        @on
        def defined(self, event: lessons.Defined) -> None: ...

    class Keyless(Projection):
        count: int = 0

        @on
        def defined(self, event: lessons.Defined) -> None: ...

    with pytest.raises(InvalidInput, match="no key"):
        ReadModel(Keyless, table="x")
    with pytest.raises(InvalidInput, match="a projection"):
        ReadModel(lessons.Defined, table="x")  # type: ignore[type-var]
    with pytest.raises(InvalidInput, match="does not know its store"):
        ReadModel(Course, table="x").get("c1")
    with new_place("memory").connect() as store, pytest.raises(InvalidInput, match="no database"):
        ReadModel(Course, table="x").catch_up(store)
    with new_place("sqlite").connect() as store:
        with pytest.raises(InvalidInput, match="another column"):
            ReadModel(Positioned, table="x").catch_up(store)
        with pytest.raises(InvalidInput, match="engine"):
            ReadModel(Course, table="x").rebuild(store, engine="flink")  # type: ignore[call-overload]


def drop(store: EventStore, table: str) -> None:
    tx = store.engine.transaction()
    tx.begin()
    tx.execute(f"drop table {table}")
    tx.commit()
    tx.end()


def test_a_table_that_is_gone_is_noticed_at_the_first_run_and_at_the_first_question(
    place: Place, store: EventStore
) -> None:
    table = table_in(place)
    store.append([define("c1"), join("s1", "c1")])
    ReadModel(Course, table=table).catch_up(store)
    drop(store, table)
    model = ReadModel(Course, table=table)
    model.use(store)
    for ask in (
        lambda: model.get("c1"),
        lambda: model.find("taken > 0"),
        lambda: model.catch_up(store),
        lambda: model.run(store),
        lambda: model.worker(store),
    ):
        with pytest.raises(FollowerFailed, match="is gone") as stop:
            ask()
        assert "strandline models rebuild" in stop.value.hint
    model.rebuild(store)
    assert model.get("c1") == store.project(Course, "c1")
    assert model.catch_up(store) == 2


def test_a_table_that_goes_while_it_is_kept_live_ends_that_with_the_same_hint(
    place: Place, store: EventStore
) -> None:
    table = table_in(place)
    model = ReadModel(Course, table=table)
    worker = model.worker(store)
    store.append(define("c1"))
    worker.catch_up()
    drop(store, table)
    store.append(join("s1", "c1"))
    with pytest.raises(FollowerFailed, match="misses a table") as stop:
        worker.catch_up()
    assert "strandline models rebuild" in stop.value.hint
    assert model.status().position == 1
