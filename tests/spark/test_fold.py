"""What executors fold is what the store folds: without Spark where it can be, and on it."""

from __future__ import annotations

from decimal import Decimal
from itertools import product
from typing import Any
from unittest import mock

import lectures
import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lectures import (
    PROJECTIONS,
    Course,
    Defined,
    Everything,
    Seat,
    Total,
    define,
    expected,
    join,
    write_history,
)
from pyspark.errors import PySparkException
from without_spark import passed, shuffled

import strandline
import strandline.spark as sls
from places import Place
from strandline import (
    AppendRequest,
    DomainEvent,
    Event,
    InvalidEvent,
    InvalidInput,
    NotFound,
    Projection,
    TagId,
    on,
)
from strandline.arrow import raw_columns, tag_lists
from strandline.domain.folding import Fold
from strandline.domain.shape import shape_of
from strandline.errors import FollowerFailed
from strandline.spark.fold import buckets
from strandline.spark.fold.buckets import FEWEST_EVENTS, bucket_count
from strandline.spark.fold.columns import columns_for
from strandline.spark.fold.keying import Keying, buckets_of
from strandline.spark.fold.keys_sql import keys_sql
from strandline.spark.fold.passing import Pass
from strandline.spark.fold.rows import in_columns
from strandline.spark.fold.states import StateColumns
from strandline.spark.fold.table_function import feed
from strandline.spark.loading import imported, load, path_of
from strandline.spark.retagging.rule import NamedRule


def rows_of(frame: Any, projection: Any) -> dict[tuple[str, ...], Any]:
    """The rows of a DataFrame by key; no key is there twice."""
    rows = frame.collect()
    width = len(shape_of(projection).key)
    found = {tuple(row)[:width]: row for row in rows}
    assert len(found) == len(rows)
    return found


def same(frame: Any, projection: Any, states: dict[tuple[str, ...], tuple[Any, int]]) -> None:
    rows = rows_of(frame, projection)
    assert {key: (row.asDict(), row.position) for key, row in rows.items()} == {
        key: ({**vars(state), "position": position}, position) for key, (state, position) in states.items()
    }


# Without Spark


@pytest.mark.parametrize("projection", PROJECTIONS, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_pass_over_sorted_events_gives_the_fold(projection: Any, size: int) -> None:
    with strandline.connect("memory:") as store:
        write_history(store, 1)
        fold = Fold(projection)
        tasks = shuffled(store, [fold], size=size)
        found = [one for task in tasks for one in passed([fold], task)]
        states = expected(store, projection)

    assert {one.state._key(): (one.state, one.position) for one in found} == states
    assert len(found) == len(states)


@settings(max_examples=30)
@given(st.integers(0, 1 << 32), st.integers(1, 30), st.integers(1, 4), st.sampled_from([1, 300, 1 << 16]))
def test_random_logs_in_one_pass_of_all_projections(
    seed: int, size: int, partitions: int, piece_bytes: int
) -> None:
    with (
        mock.patch.object(buckets, "PIECE_BYTES", piece_bytes),
        mock.patch.object(buckets, "PIECES_BYTES", 4 * piece_bytes),
        strandline.connect("memory:") as store,
    ):
        write_history(store, seed, 12)
        folds = [Fold(projection) for projection in PROJECTIONS]
        tasks = shuffled(store, folds, size=size, partitions=partitions)
        found = [one for task in tasks for one in passed(folds, task)]
        for number, projection in enumerate(PROJECTIONS):
            of_one = [one for one in found if one.number == number]
            states = {one.state._key(): (one.state, one.position) for one in of_one}
            assert states == expected(store, projection)
            assert len(states) == len(of_one)


def test_an_event_with_many_keys_is_in_its_bucket_once() -> None:
    with mock.patch.object(buckets, "PIECE_BYTES", 1), strandline.connect("memory:") as store:
        names = [f"c{number}" for number in range(9)]
        for student in "abcde":
            store.append(join(student, *names))
        folds = [Fold(Course), Fold(Seat)]
        (task,) = shuffled(store, folds, partitions=1)
        found = [one for one in passed(folds, task) if one.number == 0]
        assert len(task) == 5
        assert {one.state._key(): (one.state, one.position) for one in found} == expected(store, Course)
        assert len(found) == len(names)


def test_a_pass_keeps_a_state_for_each_key_and_no_events() -> None:
    fold = Fold(Course)
    one = Pass([fold])
    with strandline.connect("memory:") as store:
        write_history(store, 2)
        (batches,) = shuffled(store, [fold], partitions=1, size=10)
        for batch in batches:
            feed(one, [fold], batch)
        (states,) = one._states
        assert [state.last for state in states.values()] == [None] * len(expected(store, Course))
        assert len(list(one.end())) == len(expected(store, Course))
        assert list(one.end()) == []


class RoomId(TagId): ...


class Booked(DomainEvent):
    rooms: list[RoomId]
    lines: list[str]


class Room(Projection):
    id: RoomId
    lines: list[str] = []

    @on
    def booked(self, event: Booked) -> None:
        self.lines = event.lines
        self.lines.append(str(self.id))


def test_what_a_handler_does_to_its_event_changes_no_other_state() -> None:
    with strandline.connect("memory:") as store:
        store.append(Booked(rooms=[RoomId("1"), RoomId("2")], lines=["a"]))
        folds = [Fold(Room), Fold(Room)]
        (task,) = shuffled(store, folds, partitions=1)
        found = [(one.number, one.state) for one in passed(folds, task)]
        rooms = [store.project(Room("1")), store.project(Room("2"))]
    assert found == [(number, room) for number in (0, 1) for room in rooms]
    assert [room.lines for room in rooms] == [["a", "1"], ["a", "2"]]


def test_a_large_event_with_keys_in_many_buckets_is_not_in_memory_for_all_of_them() -> None:
    size, keys = 900_000, 60
    with strandline.connect("memory:") as store:
        store.append(Booked(rooms=[RoomId(str(number)) for number in range(keys)], lines=["x" * size]))
        (row,) = map(msgspec.structs.astuple, store.read())
    folds = [Fold(Room)]
    told = buckets.Told((Keying.of(folds[0]),), columns_for(folds), 200)
    usual = pa.default_memory_pool()
    counting = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(counting)
    try:
        packed = sum(batch.nbytes for batch in buckets.packed_batches(raw_columns([row]), told))
    finally:
        pa.set_memory_pool(usual)
    assert packed > 40 * size
    assert 0 < counting.max_memory() < packed / 2


@pytest.mark.parametrize("positions", [[2, 1], [1, 1], [1, 3, 2]])
def test_events_out_of_order_are_noticed(positions: list[int]) -> None:
    with strandline.connect("memory:") as store:
        store.append([define("a"), define("b"), define("a")])
        events = {event.position: event for event in store.read()}
    one = Pass([Fold(Course)])
    keyed = [(range(len(positions)), ["a"] * len(positions))]
    with pytest.raises(InvalidInput, match="order of positions"):
        one.feed(in_columns([events[position] for position in positions]), keyed)


class Left(DomainEvent):
    course: lectures.CourseId
    row: int


class Counted(Projection):
    id: lectures.CourseId
    times: int = 0

    @on
    def left(self, event: Left) -> None:
        self.times += 1


class Summed(Projection):
    id: lectures.CourseId
    rows: int = 0

    @on
    def left(self, event: Left) -> None:
        self.rows += event.row


@pytest.mark.parametrize("metadata", [None, {"user": "ada"}])
def test_events_that_no_projection_of_a_pass_looks_at_are_not_read(metadata: dict[str, str] | None) -> None:
    with strandline.connect("memory:") as store:
        store.append(Event("Left", b"no JSON", tags=["course:a"], metadata=metadata))
        (event,) = store.read()
    counting = Pass([Fold(Counted)])
    counting.feed(in_columns([event]), [([0], ["a"])])
    assert [(vars(one.state), one.position) for one in counting.end()] == [({"id": "a", "times": 1}, 1)]
    both = Pass([Fold(Counted), Fold(Summed)])
    with pytest.raises(InvalidEvent, match="does not fit Left"):
        both.feed(in_columns([event]), [([0], ["a"]), ([0], ["a"])])


def test_pieces_out_of_order_are_noticed() -> None:
    with strandline.connect("memory:") as store:
        store.append([define("a"), define("b")])
        first, second = store.read()
    one = Pass([Fold(Course)])
    one.feed(in_columns([second]), [([0], ["b"])])
    with pytest.raises(InvalidInput, match="order of positions"):
        one.feed(in_columns([first]), [([0], ["a"])])


def test_keys_of_whole_batches_are_those_of_single_events() -> None:
    listed = [
        (),
        ("course:",),
        ("course:a", "course:b", "student:1"),
        ("coursex:a", "course:\u00e4\U0001f34f:x"),
    ]
    rows = [
        (number, kind, b"{}", "\n".join(sorted(tags)))
        for number, (kind, tags) in enumerate(product(["Joined", "Other", "Defined"], listed), 1)
    ]
    raw = raw_columns(rows, ("position", "type", "data", "tags"))
    for projection in PROJECTIONS:
        fold = Fold(projection)
        found, keys = Keying.of(fold).rows(raw, tag_lists(raw["tags"]))
        assert sorted(zip(found.to_pylist(), keys.to_pylist(), strict=True)) == sorted(
            (number - 1, "\n".join(key))
            for number, kind, _, tags in rows
            if kind in fold.types
            for key in fold.keys(tags.split("\n") if tags else ())
        )


@pytest.mark.parametrize("projection", [*PROJECTIONS, Everything], ids=lambda cls: cls.__name__)
def test_a_state_that_a_fold_begins_with_is_that_of_the_class(projection: Any) -> None:
    key = [str(number) for number, _ in enumerate(shape_of(projection).key)]
    mine, other, usual = (
        Fold(projection).state(tuple(key)),
        Fold(projection).state(tuple(key)),
        projection(*key),
    )
    assert mine == usual
    assert [*map(type, vars(mine).values())] == [*map(type, vars(usual).values())]
    mutable = [name for name, value in vars(mine).items() if isinstance(value, (list, dict, set))]
    assert all(vars(mine)[name] is not vars(other)[name] for name in mutable)


def test_a_key_has_the_same_bucket_everywhere() -> None:
    keys = pa.array(["a", "b", "a", "\u00e4", ""])
    assert buckets_of(keys, 7).to_pylist() == [4, 4, 4, 1, 0]


def test_a_handler_that_fails_is_told_with_its_key_and_event() -> None:
    with strandline.connect("memory:") as store:
        store.append([join("s1", "c1"), join("breaker", "c1")])
        (task,) = shuffled(store, [Fold(lectures.Fragile)], partitions=1)
        with pytest.raises(
            FollowerFailed, match=r"Fragile\('c1',\) could not take event 2 \(Joined\).*it broke"
        ):
            list(passed([Fold(lectures.Fragile)], task))


def test_a_state_type_without_a_spark_type_is_refused_before_anything_runs(tmp_path: Any) -> None:
    with pytest.raises(InvalidInput, match=r"Mixed.value: int \| str has no Spark type") as refused:
        StateColumns(lectures.Mixed)
    assert "annotate it with" in refused.value.hint


def test_a_field_called_position_is_refused() -> None:
    class Positioned(Projection):
        course: lectures.CourseId
        Position: int = 0

        @on
        def defined(self, event: Defined) -> None: ...

    with pytest.raises(InvalidInput, match=r"Positioned\.Position has the name of another column"):
        StateColumns(Positioned)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("lectures", "no import path"),
        ("nowhere:Course", "no module 'nowhere'"),
        ("lectures:Nothing", "has no 'Nothing'"),
        ("lectures:Defined", "is no projection"),
        (".lectures:Course", "no import path"),
        (":Course", "no import path"),
        (5, "no import path"),
    ],
)
def test_a_path_that_does_not_import_is_told_in_one_line(path: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as refused:
        imported(path) if isinstance(path, str) else load(path)
    assert "school:Course" in refused.value.hint


@pytest.mark.parametrize("nothing", [None, 5, ["lectures:Course"]])
def test_what_has_no_import_path_is_told_in_one_line(nothing: Any) -> None:
    for ask in (imported, NamedRule):
        with pytest.raises(InvalidInput, match="no import path") as refused:
            ask(nothing)
        assert "school:Course" in refused.value.hint


def test_a_class_that_executors_cannot_import_is_refused() -> None:
    class Local(Projection):
        @on
        def defined(self, event: Defined) -> None: ...

    with pytest.raises(InvalidInput, match="cannot be imported by others"):
        path_of(Local)
    assert path_of(Course) == "lectures:Course"


def test_another_version_on_an_executor_is_noticed() -> None:
    told = imported("lectures:Course")
    with pytest.raises(FollowerFailed, match="another version of lectures:Course"):
        told._replace(version="1-older").load()


def test_a_log_in_memory_is_refused(spark) -> None:
    with pytest.raises(InvalidInput, match="memory"):
        sls.fold(spark, "memory:", Course)


# On Spark


def test_the_fold_on_spark_is_the_fold_of_the_store(spark, kept: Place) -> None:
    with kept.connect() as store:
        write_history(store, 3)
        until = store.head() - 20
        for projection in (Seat, Total):
            same(
                sls.fold(spark, str(kept.url), projection, **kept.options),
                projection,
                expected(store, projection),
            )
        frame = sls.fold(spark, str(kept.url), "lectures:Course", until, **kept.options)
        same(frame, Course, expected(store, Course, until))
        store.append(join("s1", "later"))
        same(frame, Course, expected(store, Course, until))


def test_every_type_has_its_column(spark, tmp_path: Any) -> None:
    url = str(tmp_path / "log.db")
    with strandline.connect(url) as store:
        store.append([define("full", 1), define("new", 0)])
    frame = sls.fold(spark, url, Everything)
    kinds = dict(frame.dtypes)
    full, new = (row.asDict(recursive=True) for row in sorted(frame.collect(), key=lambda row: row.course))

    assert (kinds["number"], kinds["share"], kinds["is_open"]) == ("bigint", "double", "boolean")
    assert (kinds["course"], kinds["other"], kinds["id"], kinds["color"]) == ("string",) * 4
    assert (kinds["moment"], kinds["price"], kinds["raw"]) == ("timestamp", "decimal(38,18)", "binary")
    assert (kinds["level"], kinds["chosen"], kinds["counts"]) == (
        "bigint",
        "array<bigint>",
        "map<string,bigint>",
    )
    assert (
        kinds["rooms"] == "map<string,struct<name:string,corner:struct<x:bigint,y:double>,since:timestamp>>"
    )
    assert new == {**dict.fromkeys(full), **EMPTY, "course": "new", "position": 2}
    assert full["moment"].timestamp() == lectures.FULL["moment"].timestamp()
    assert full["price"] == Decimal("12.34")
    plain = ("number", "share", "is_open", "title", "other", "raw", "names", "counts")
    assert {name: full[name] for name in plain} == {name: lectures.FULL[name] for name in plain}
    assert (full["id"], full["level"], full["color"]) == (str(lectures.FULL["id"]), 2, "blue")
    assert (full["chosen"], full["pair"]) == ([9, 10], {"_1": 1, "_2": "one"})
    assert full["rooms"]["r"]["corner"] == {"x": 1, "y": 2.5}
    assert full["part"]["rooms"][0]["name"] == "small"


EMPTY: dict[str, Any] = {
    "number": 0,
    "share": 0.0,
    "is_open": False,
    "title": "",
    "price": Decimal(0),
    "raw": b"",
    "level": 1,
    "names": [],
    "chosen": [],
    "pair": {"_1": 0, "_2": ""},
    "counts": {},
    "rooms": {},
}


def test_a_value_that_is_not_what_the_annotation_says_is_told(spark, tmp_path: Any) -> None:
    url = str(tmp_path / "log.db")
    with strandline.connect(url) as store:
        store.append(define("c1"))
    with pytest.raises(PySparkException, match=r"Moment\('c1'\)\.moment is datetime.* which is no TIMESTAMP"):
        sls.fold(spark, url, lectures.Moment).collect()


def test_sql_folds_too(spark, tmp_path: Any) -> None:
    url = str(tmp_path / "log.db")
    with strandline.connect(url) as store:
        write_history(store, 4, 30)
        states, seats = expected(store, Course), expected(store, Seat)
    sls.register_fold(spark, "fold_course", "lectures:Course")
    sls.register_fold(spark, "fold_seat", "lectures:Seat")
    spark.read.format("strandline").option("url", url).load().createOrReplaceTempView("events")
    query = """
        SELECT * FROM fold_{0}(
            TABLE(SELECT * FROM events, LATERAL fold_{0}_keys(type, tags)) PARTITION BY key ORDER BY position)
    """
    same(spark.sql(query.format("course")), Course, states)
    same(spark.sql(query.format("seat")), Seat, seats)
    usual = "PARTITION BY key ORDER BY position"
    for wrong in ("", "PARTITION BY type ORDER BY position", "PARTITION BY (key, type) ORDER BY position"):
        with pytest.raises(PySparkException, match="do not come alone and together"):
            spark.sql(query.format("course").replace(usual, wrong)).collect()
    of_one = (
        query.format("course").replace(usual, "").replace("(type, tags)", "(type, tags) WHERE key = 'c1'")
    )
    with pytest.raises(PySparkException, match="do not come alone and together"):
        spark.sql(of_one).collect()
    with pytest.raises(PySparkException, match="order"):
        spark.sql(query.format("course").replace("ORDER BY position", "ORDER BY -position")).collect()
    with pytest.raises(PySparkException, match="has no column key"):
        spark.sql("SELECT * FROM fold_course(TABLE(events))").collect()


def test_the_keys_in_sql_are_those_in_python(spark) -> None:
    class Odd(TagId, prefix="o'd\\d"): ...

    class Twice(Projection):
        course: lectures.CourseId
        odd: Odd
        again: lectures.CourseId

        @on
        def joined(self, event: lectures.Joined) -> None: ...

    listed = [[], ["course:"], ["course:a", "course:b", "o'd\\d:1"], ["coursex:a", "o'd\\d:ä", "course:🍏:x"]]
    frame = spark.createDataFrame(
        list(product(["Joined", "Other"], listed)), "type STRING, tags ARRAY<STRING>"
    )
    for fold in map(Fold, (Twice, Course, Total)):
        for kind, tags, found in frame.selectExpr("type", "tags", f"{keys_sql(fold)} as found").collect():
            assert sorted(found) == sorted("\n".join(key) for key in fold.keys(tags) if kind in fold.types)


def test_the_plan_has_a_bucket_for_each_task_and_sorts_by_position(spark, tmp_path: Any, capsys: Any) -> None:
    url = str(tmp_path / "log.db")
    with strandline.connect(url) as store:
        nine = [define(str(number)) for number in range(9)]
        store.append_many([AppendRequest(nine) for _ in range(FEWEST_EVENTS // 9 + 1)])
    frame = sls.fold(spark, url, Course)
    frame.explain()
    lines = [line.strip(" +-:") for line in capsys.readouterr().out.splitlines()]
    steps = [line.split()[0] for line in lines if line]
    found = steps.index("ArrowEvalPythonUDTF")

    assert steps[found : found + 4] == ["ArrowEvalPythonUDTF", "Project", "Sort", "Exchange"]
    assert any(line.startswith("Sort [position#") for line in lines)
    (exchange,) = [line for line in lines if line.startswith("Exchange")]
    # By number, so that Spark neither divides a bucket nor adds it to another.
    assert "shufflepartitionidpassthrough" in exchange
    assert "bucket#" in exchange
    assert ", 2), REPARTITION_BY_NUM" in exchange
    assert frame.count() == 9


@pytest.mark.parametrize(
    ("events", "wanted", "count"),
    [(0, 200, 1), (10_000, 200, 1), (10_001, 200, 2), (5_000_000, 8, 10), (5_000_000, 200, 200)],
)
def test_there_are_as_many_buckets_as_are_good(events: int, wanted: int, count: int) -> None:
    assert bucket_count(events, wanted) == count


def test_several_projections_keep_no_more_than_fits_into_memory_either() -> None:
    assert [bucket_count(5_000_000, 8, projections) for projections in (1, 2, 3, 10)] == [10, 10, 15, 50]


def test_a_log_that_is_not_there_is_not_made(spark, tmp_path: Any) -> None:
    with pytest.raises(NotFound):
        sls.fold(spark, str(tmp_path / "none.db"), Course)
    assert list(tmp_path.iterdir()) == []
