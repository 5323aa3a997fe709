"""What executors fold is what the store folds: without Spark where it can be, and on it."""

from __future__ import annotations

from decimal import Decimal
from itertools import product
from typing import Any

import lectures
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
from without_spark import SCHEMA, passed, shuffled

import strandline
import strandline.spark as sls
from places import Place
from strandline import InvalidInput, NotFound, Projection, TagId, on
from strandline.domain.folding import Fold
from strandline.domain.shape import shape_of
from strandline.errors import FollowerFailed
from strandline.spark.fold.keyed import keys_sql
from strandline.spark.fold.passing import Pass
from strandline.spark.fold.states import StateColumns
from strandline.spark.loading import imported, load, path_of


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
@given(st.integers(0, 1 << 32), st.integers(1, 9), st.integers(1, 4))
def test_random_logs_in_one_pass_of_all_projections(seed: int, size: int, partitions: int) -> None:
    with strandline.connect("memory:") as store:
        write_history(store, seed, 12)
        folds = [Fold(projection) for projection in PROJECTIONS]
        tasks = shuffled(store, folds, size=size, partitions=partitions)
        found = [one for task in tasks for one in passed(folds, task)]
        for number, projection in enumerate(PROJECTIONS):
            of_one = [one for one in found if one.number == number]
            states = {one.state._key(): (one.state, one.position) for one in of_one}
            assert states == expected(store, projection)
            assert len(states) == len(of_one)


def test_a_pass_keeps_the_state_of_one_key_and_no_events() -> None:
    one = Pass([Fold(Total)])
    with strandline.connect("memory:") as store:
        write_history(store, 2)
        ((*batches, last),) = shuffled(store, [Fold(Total)], partitions=1, size=10)
        assert [folded for batch in batches for folded in one.feed(batch)] == []
        assert list(one.feed(last)) == []
        (folded,) = one.end()
        assert folded.state == store.project(Total())
        assert list(one.end()) == []


@pytest.mark.parametrize("keys", [["b", "a"], ["a", "a"], ["a", "b", "a"]])
def test_events_out_of_order_are_noticed(keys: list[str]) -> None:
    row = {
        "position": 1,
        "type": "Defined",
        "data": '{"course": "a", "capacity": 1}',
        "metadata": [("version", "2")],
    }
    batch = pa.RecordBatch.from_pylist(
        [row | {"key": key, "tags": []} for key in keys], SCHEMA.remove(6).remove(7)
    )
    with pytest.raises(InvalidInput, match="order"):
        list(passed([Fold(Course)], [batch]))


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
        (":Course", "no import path"),
        (5, "no import path"),
    ],
)
def test_a_path_that_does_not_import_is_told_in_one_line(path: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as refused:
        imported(path) if isinstance(path, str) else load(path)
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
    unordered = query.format("course").replace("PARTITION BY key ORDER BY position", "")
    with pytest.raises(PySparkException, match="order of keys and positions"):
        spark.sql(unordered).collect()
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
    folds = [Fold(Twice), Fold(Course), Fold(Total)]
    for chosen in (folds[:1], folds):
        for kind, tags, found in frame.selectExpr("type", "tags", f"{keys_sql(chosen)} as found").collect():
            texts = [
                "\n".join((str(number), *key) if len(chosen) > 1 else key)
                for number, fold in enumerate(chosen)
                for key in (fold.keys(tags) if kind in fold.types else ())
            ]
            assert sorted(found) == sorted(texts)


def test_the_plan_partitions_by_key_and_sorts_by_key_and_position(spark, tmp_path: Any, capsys: Any) -> None:
    url = str(tmp_path / "log.db")
    strandline.connect(url).close()
    sls.fold(spark, url, Course).explain()
    lines = [line.strip(" +-:") for line in capsys.readouterr().out.splitlines()]
    steps = [line.split()[0] for line in lines if line]
    found = steps.index("ArrowEvalPythonUDTF")

    assert steps[found : found + 4] == ["ArrowEvalPythonUDTF", "Project", "Sort", "Exchange"]
    assert any(line.startswith("Sort [key#") and ", position#" in line for line in lines)
    assert any(line.startswith("Exchange hashpartitioning(key#") for line in lines)


def test_a_log_that_is_not_there_is_not_made(spark, tmp_path: Any) -> None:
    with pytest.raises(NotFound):
        sls.fold(spark, str(tmp_path / "none.db"), Course)
    assert list(tmp_path.iterdir()) == []
