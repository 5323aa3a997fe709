"""Rows become events in the order of a column: what executors stage and the driver commits, without Spark."""

from __future__ import annotations

import pickle
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    DateType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from places import Place
from strandline import Event, InvalidEvent, InvalidInput, Query
from strandline.errors import NotFound
from strandline.spark.importing import runs
from strandline.spark.source.write_options import WriteOptions
from strandline.spark.source.writer import EventWriter

SCHEMA = "n BIGINT, type STRING, data STRING, tags ARRAY<STRING>, id STRING, metadata MAP<STRING,STRING>"
KINDS = {
    "BIGINT": LongType(),
    "INT": IntegerType(),
    "DATE": DateType(),
    "STRING": StringType(),
    "ARRAY<STRING>": ArrayType(StringType()),
    "MAP<STRING,STRING>": MapType(StringType(), StringType()),
    "MAP<STRING,INT>": MapType(StringType(), IntegerType()),
    "STRUCT<a:INT>": StructType([StructField("a", IntegerType())]),
}


def struct(text: str) -> StructType:
    """A schema, which Spark's own parser would need a JVM for."""
    fields = [field.split(" ") for field in text.split(", ")]
    return StructType([StructField(name, KINDS[kind]) for name, kind in fields])


def writer(place: Place, schema: str = SCHEMA, order: str | None = "n", **options: str) -> EventWriter:
    given = {"url": str(place.url), **place.options, **options} | (
        {} if order is None else {"orderBy": order}
    )
    return EventWriter(WriteOptions.of(given), struct(schema), overwrite=False)


def batch(rows: list[dict[str, Any]], **kinds: pa.DataType) -> pa.RecordBatch:
    """Rows as Spark hands them over."""
    known = {
        "type": pa.string(),
        "data": pa.string(),
        "tags": pa.list_(pa.string()),
        "id": pa.string(),
        "metadata": pa.map_(pa.string(), pa.string()),
    }
    names = list(rows[0])
    return pa.RecordBatch.from_arrays(
        [pa.array([row[name] for row in rows], kinds.get(name) or known.get(name)) for name in names], names
    )


def row(n: Any, **more: Any) -> dict[str, Any]:
    return {"n": n, "type": "Counted", "data": f'{{"n": {n}}}', **more}


def commit(writer: EventWriter, *tasks: list[pa.RecordBatch]) -> None:
    writer.commit([writer.write(iter(task)) for task in tasks])


def numbers(place: Place) -> list[int]:
    with place.connect() as store:
        return [event.json()["n"] for event in store.read()]


def test_rows_of_all_tasks_are_appended_in_the_order_of_the_column(
    kept: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "RUN_EVENTS", 50)  # several runs for each task
    shuffled = random.Random(1).sample(range(3_000), 3_000)
    tasks = [
        [batch([row(n) for n in shuffled[start + some : start + some + 40]]) for some in range(0, 1_000, 40)]
        for start in range(0, 3_000, 1_000)
    ]
    commit(writer(kept), *tasks)

    assert numbers(kept) == list(range(3_000))


def test_an_event_has_all_that_its_row_has(kept: Place) -> None:
    event = Event("Paid", {"n": 1}, tags=["b", "a"], metadata={"user": "ada"})
    full = {
        "n": 1,
        "type": "Paid",
        "data": '{"n":1}',
        "tags": ["b", "a"],
        "id": str(event.id),
        "metadata": [("$tracking", "17 orders"), ("user", "ada")],  # as a row of another log has it
        "stream": "s",
        "subject": "x",
        "key": "k",
    }
    poor = {**dict.fromkeys(full), "n": 2, "type": "Paid", "data": "no JSON"}
    schema = f"{SCHEMA}, stream STRING, subject STRING, key STRING"
    rows = batch([full, poor], n=pa.int64(), stream=pa.string(), subject=pa.string(), key=pa.string())
    commit(writer(kept, schema), [rows])

    with kept.connect() as store:
        one, other = store.read()
    assert (one.id, one.data, one.tags, one.metadata) == (event.id, b'{"n":1}', ("a", "b"), {"user": "ada"})
    assert (one.stream, one.subject, one.key, one.tracking) == ("s", "x", "k", None)
    assert (other.data, other.tags, other.metadata, other.stream) == (b"no JSON", (), {}, None)


def test_rows_that_are_equal_in_the_column_keep_the_order_that_they_have(tmp_path: Path) -> None:
    place = Place(tmp_path / "log.db")
    rows = [{**row(number), "n": number // 50} for number in range(100)]
    commit(writer(place), [batch(rows[:60]), batch(rows[60:])])
    assert numbers(place) == list(range(100))


@pytest.mark.parametrize(
    "values",
    [
        ["b", "a", "é", "😀", "ab", ""],
        [datetime(2026, 1, day, tzinfo=UTC) for day in (3, 1, 2)],
        [datetime(2026, 1, day) for day in (3, 1, 2)],  # noqa: DTZ001  (Spark has times without zone)
        [date(2026, 1, day) for day in (3, 1, 2)],
        [Decimal("1.50"), Decimal(-3), Decimal("1.4")],
        [2.5, -1.0, float("inf")],
        [timedelta(seconds=5), timedelta(seconds=1)],
        [b"\xff", b"\x00", b"a"],
        [True, False],
    ],
    ids=lambda values: type(values[0]).__name__,
)
def test_any_column_that_has_an_order_will_do(tmp_path: Path, values: list[Any]) -> None:
    place = Place(tmp_path / "log.db")
    rows = [{"n": value, "type": "A", "data": str(number)} for number, value in enumerate(values)]
    commit(writer(place, "n STRING, type STRING, data STRING"), [batch(rows[1:])], [batch(rows[:1])])

    with place.connect() as store:
        assert [values[event.json()] for event in store.read()] == sorted(values)


def test_only_what_a_committed_attempt_told_counts(kept: Place) -> None:
    """A task that Spark runs twice stages twice; one attempt of it is committed."""
    own = writer(kept)
    first, second = (own.write(iter([batch([row(1), row(3)])])) for _ in range(2))
    assert first.pieces[0].path != second.pieces[0].path
    other = pickle.loads(pickle.dumps(own)).write(iter([batch([row(2)])]))
    pickle.loads(pickle.dumps(own)).commit([second, other, None])

    assert numbers(kept) == [1, 2, 3]


def test_rows_with_ids_are_written_once_however_often_they_are_saved(kept: Place) -> None:
    events = [Event("Counted", {"n": n}) for n in range(1_500)]
    rows = [{**row(n), "data": event.data.decode(), "id": str(event.id)} for n, event in enumerate(events)]
    commit(writer(kept), [batch(rows[:1_100])])
    commit(writer(kept), [batch(rows)])
    assert numbers(kept) == list(range(1_500))


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({"n": None}, "the row with n None: there is no order without a value"),
        ({"type": None}, "the row with n 7: a type is a str"),
        ({"type": "$retag"}, "reserved"),
        ({"data": None}, "an event has data, and this is null"),
        ({"tags": ["a", None]}, "a tag is a str"),
        ({"id": "7"}, "an event id is a UUID"),
        ({"metadata": [("a", None)]}, "metadata is text"),
    ],
)
def test_a_row_that_is_no_event_is_named_and_nothing_is_written(
    tmp_path: Path, bad: dict[str, Any], why: str
) -> None:
    place = Place(tmp_path / "log.db")
    more = {"tags": [], "id": None, "metadata": []}
    rows = [row(n, **more) for n in range(5)]
    own = writer(place)
    with pytest.raises(InvalidEvent, match="1 rows are no events, so nothing was written") as refused:
        commit(own, [batch(rows)], [batch([{**row(7, **more), **bad}], n=pa.int64())])

    assert why in str(refused.value)
    assert numbers(place) == []


@pytest.mark.parametrize(
    ("schema", "order", "why"),
    [
        (SCHEMA, None, "nothing says by which column"),
        (SCHEMA, "m", "there is no column m"),
        (SCHEMA, "tags", "cannot be sorted by tags, a array<string>"),
        (SCHEMA, "metadata", "cannot be sorted by metadata"),
        (f"{SCHEMA}, when DATE", "n", "when is unknown"),
        ("n BIGINT, type STRING", "n", "data is missing"),
        ("n BIGINT, type STRING, data STRUCT<a:INT>", "n", "data is struct<a:int>, not STRING"),
        ("n BIGINT, type STRING, data STRING, tags STRING", "n", "tags is string, not ARRAY<STRING>"),
        ("n BIGINT, type STRING, data STRING, metadata MAP<STRING,INT>", "n", "metadata is map<string,int>"),
        ("n BIGINT, type INT, data STRING", "n", "type is int, not STRING"),
        ("n BIGINT, n BIGINT, type STRING, data STRING", "n", "several columns are called n"),
    ],
)
def test_rows_that_cannot_be_events_are_refused_at_once(
    tmp_path: Path, schema: str, order: str | None, why: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        writer(Place(tmp_path / "log.db"), schema, order)
    assert why in str(refused.value)
    assert refused.value.hint


def test_a_log_is_not_overwritten(tmp_path: Path) -> None:
    options = WriteOptions.of({"url": str(tmp_path / "log.db"), "orderBy": "n"})
    with pytest.raises(InvalidInput, match="a log only grows"):
        EventWriter(options, struct(SCHEMA), overwrite=True)
    assert not (tmp_path / "log.db").exists()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "url or urlEnv, and not both"),
        ({"url": "a.db", "urlEnv": "X"}, "url or urlEnv, and not both"),
        ({"url": "a.db", "order": "n"}, "no option 'order' for a write"),
        ({"url": "a.db", "maxDataBytes": "many"}, "whole number"),
    ],
)
def test_options_that_cannot_be_right_are_refused(options: dict[str, str], why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        WriteOptions.of(options)


def test_a_folder_for_staging_that_is_not_there_leaves_no_store(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="nothing can be staged"):
        writer(Place(tmp_path / "log.db"), staging=str(tmp_path / "nowhere"))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(NotFound, match="does not exist"):
        writer(Place(tmp_path / "nowhere" / "log.db"), staging=str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_url_from_the_environment_and_one_that_is_shown_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_STORE", str(tmp_path / "log.db"))
    options = WriteOptions.of({"urlEnv": "THE_STORE", "orderBy": "n"})
    options.check()
    assert (tmp_path / "log.db").exists()
    with pytest.raises(InvalidInput, match="variable NOWHERE is not set"):
        WriteOptions.of({"urlEnv": "NOWHERE"}).check()
    with pytest.raises(InvalidInput, match="a log in memory"):
        WriteOptions.of({"url": "memory:"}).check()
    assert "secret" not in repr(WriteOptions.of({"url": "postgresql://me:secret@localhost/x"}))


def test_what_was_staged_is_gone_afterwards(tmp_path: Path) -> None:
    place, staging = Place(tmp_path / "log.db"), tmp_path / "staging"
    with pytest.raises(NotFound, match="nothing can be staged in"):
        writer(place, staging=str(staging))
    staging.mkdir()
    own = writer(place, staging=str(staging))
    message = own.write(iter([batch([row(1)])]))
    assert len(list(staging.glob("*/*.parquet"))) == 1
    own.commit([message])
    assert list(staging.iterdir()) == []

    own = writer(place, staging=str(staging))
    message = own.write(iter([batch([row(2)])]))
    own.abort([message, None])
    assert list(staging.iterdir()) == []
    assert numbers(place) == [1]


def test_staged_files_that_the_driver_does_not_see_are_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    place = Place(tmp_path / "log.db")
    own = writer(place)
    message = own.write(iter([batch([row(1)])]))
    own.abort([message])
    with pytest.raises(NotFound, match="does not see what executors staged"):
        own.commit([message])
    with pytest.raises(NotFound, match="an executor does not see the driver's folder"):
        own.write(iter([batch([row(1)])]))
    assert numbers(place) == []


def test_retags_among_the_rows_are_skipped(tmp_path: Path) -> None:
    place = Place(tmp_path / "log.db")
    commit(writer(place), [batch([row(1), {**row(2), "type": "$retagged"}, row(3)])])
    with place.connect() as store:
        assert store.count(Query.all()) == 2
