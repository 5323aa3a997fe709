"""Silver tables carry what was written: in typed columns, and beside them what these cannot."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import academy
import everything
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import school_later
from everything import EVERYTHING, SHOWN
from lakes import equals_log, silver
from local_jobs import export

from places import Place
from strandline import Event
from strandline.spark import lake_files
from strandline.spark.lake.silver import OWN_COLUMNS


@pytest.fixture
def log(tmp_path: Path) -> Place:
    return Place(tmp_path / "log.db")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def append(log: Place, *events: Any) -> None:
    with log.connect() as store:
        store.append(list(events))


def shown(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if not name.startswith("_")}


def test_fields_of_a_class_are_columns_of_their_types(log: Place, lake: Path):
    append(log, EVERYTHING)
    export(log, lake, events="everything")
    (row,) = silver(lake, "Everything")

    assert shown(row) == SHOWN
    assert row["_rest"] is row["_data"] is None


@pytest.mark.parametrize("source", ["everything:Small", everything.Small, everything, ["everything"]])
def test_classes_are_given_by_path_or_as_they_are(log: Place, lake: Path, source: Any):
    append(
        log,
        Event("Small", {"number": 1, "at": "2025-01-01T00:00:00Z", "price": "1", "address": {"street": "x"}}),
    )
    export(log, lake, events=source)

    (row,) = silver(lake, "Small")
    assert shown(row) == {
        "number": 1,
        "at": datetime(2025, 1, 1, tzinfo=UTC),
        "price": Decimal(1),
        "address": {"street": "x", "number": None},
        "note": "none",
    }


def test_what_a_class_does_not_know_or_a_column_cannot_carry_is_kept_beside_it(log: Place, lake: Path):
    good = {"number": 1, "at": "2025-01-01T00:00:00Z", "price": "1", "address": {"street": "x"}}
    variants: list[dict[str, Any]] = [
        {},
        {"number": 1 << 64},
        {"at": "2025-01-01T00:00:00"},
        {"price": "0.1234567890123456789"},
        {"more": [1]},
        {"address": {"street": "x", "floor": 2}},
        {"number": "one"},
    ]
    append(log, *[Event("Small", {**good, **variant}) for variant in variants])
    export(log, lake, events="everything:Small")
    rows = silver(lake, "Small")

    assert [json.loads(row["_rest"] or "null") for row in rows] == [
        None,
        {"number": 1 << 64},
        {"at": "2025-01-01T00:00:00"},
        {"price": "0.1234567890123456789"},
        {"more": [1]},
        {"address": {"street": "x", "floor": 2}},
        {**good, "number": "one"},  # it is no such event, so nothing is shown as one
    ]
    assert [row["number"] for row in rows] == [1, None, 1, 1, 1, 1, None]
    assert [row["at"] is None for row in rows] == [False, False, True, False, False, False, True]


def test_data_that_is_no_object_is_kept_as_it_is(log: Place, lake: Path):
    strange = [b"\xff\x00", b"not JSON", b"[1, 2]", b"1e400", b'"text"', b"null", b"[" * 10_000]
    append(log, *[Event("Odd", data) for data in strange])
    append(log, *[Event("Small", data) for data in strange])
    export(log, lake, events="everything:Small")

    assert [row["_data"] for row in silver(lake, "Odd")] == strange
    assert [row["_data"] for row in silver(lake, "Small")] == strange
    equals_log(lake, log)


def test_columns_without_a_class_come_from_the_json_and_stay(log: Place, lake: Path):
    append(
        log,
        Event(
            "Paid",
            {"amount": 1, "text": "a", "flag": True, "list": [1], "deep": {"a": 1}, "null": None, "none": []},
        ),
        Event("Paid", {"amount": 1.5, "text": "b", "list": [2.5, None], "mixed": 1}),
        Event("Paid", {"mixed": "x", "large": 1 << 64}),
    )
    export(log, lake)
    schema = pq.read_schema(lake_files(lake, "silver/Paid")[0])
    later = {"amount": "much", "text": 1, "flag": "x", "list": [1], "deep": [1], "null": 1, "new": {"a": 1}}
    append(log, Event("Paid", later))
    export(log, lake)

    assert {name: schema.field(name).type for name in schema.names if not name.startswith("_")} == {
        "amount": pa.float64(),
        "text": pa.string(),
        "flag": pa.bool_(),
        "list": pa.list_(pa.field("element", pa.float64())),
        "deep": pa.string(),
        "null": pa.string(),
        "none": pa.string(),
        "mixed": pa.string(),
        "large": pa.string(),
    }
    assert {pq.read_schema(file) for file in lake_files(lake, "silver/Paid")} == {schema}
    last = silver(lake, "Paid")[-1]
    assert (last["amount"], last["text"], last["list"], last["deep"], last["null"]) == (
        None,
        None,
        [1.0],
        "[1]",
        "1",
    )
    assert json.loads(last["_rest"]) == {"amount": "much", "text": 1, "flag": "x", "new": {"a": 1}}
    equals_log(lake, log)


def test_columns_have_names_that_every_reader_accepts(log: Place, lake: Path):
    data = {"id": 1, "ID": 2, "_id": 3, "_rest": 4, "a b": 5, "a.b": 6, "": 7, "é": 8, "_position": 9}
    append(log, Event("Paid", data))
    export(log, lake)
    (row,) = silver(lake, "Paid")

    names = [name for name in row if name not in OWN_COLUMNS]
    assert [row[name] for name in names] == [*data.values()]
    assert names == ["id", "ID_", "_id_", "_rest_", "a_b", "a_b_", "_", "__", "_position_"]
    equals_log(lake, log)


@pytest.mark.parametrize(
    "type", ["a/b", "../x", ".hidden", "_hidden", "Ünï codé", "date=1", "x" * 256, "é" * 256, "a%20b"]
)
@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_any_type_has_a_table_that_readers_find(log: Place, lake: Path, type: str, format: str):
    append(log, Event(type, {"n": 1}), Event(type.upper(), {"n": 2}), Event(type.lower(), {"n": 3}))
    export(log, lake, format)

    equals_log(lake, log)
    folders = [path.name for path in (lake / "silver").iterdir()]
    assert len({name.lower() for name in folders}) == len({type, type.upper(), type.lower()})
    assert not any(name.startswith((".", "_")) or "=" in name or len(name) > 200 for name in folders)


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_a_table_gets_the_columns_of_a_class_that_is_named_later(log: Place, lake: Path, format: str):
    append(log, *[academy.CourseDefined(course=academy.CourseId(f"c{n}"), capacity=n) for n in range(4)])
    export(log, lake, format, batch=2)
    typed = export(log, lake, format, events=school_later)
    append(log, academy.CourseDefined(course=academy.CourseId("c9"), capacity=9))
    later = export(log, lake, format)  # the class need not be named again

    assert (typed.rewritten, later.rewritten) == (4, 0)
    assert [(row["capacity"], row["room"]) for row in silver(lake, "CourseDefined")] == [
        (0, "hall"),
        (1, "hall"),
        (2, "hall"),
        (3, "hall"),
        (9, "hall"),
    ]


def test_an_event_of_a_newer_version_than_the_class_is_kept_whole(log: Place, lake: Path):
    append(log, school_later.CourseDefined(course=academy.CourseId("c1"), capacity=1, room="a"))
    export(log, lake, events=academy)
    (row,) = silver(lake, "CourseDefined")

    assert row["capacity"] is None
    assert json.loads(row["_rest"]) == {"course": "c1", "capacity": 1, "room": "a"}


def test_a_class_that_was_named_before_there_were_events_of_it_is_known_later(log: Place, lake: Path):
    append(log, Event("Paid", {"amount": 1}))
    export(log, lake)
    export(log, lake, events="everything:Small")
    append(log, Event("Small", {"number": "not one", "new": 1}))
    export(log, lake)

    (row,) = silver(lake, "Small")
    assert row["number"] is None
    assert json.loads(row["_rest"]) == {"number": "not one", "new": 1}
