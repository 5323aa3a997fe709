"""A lake shows the log: every event once, with its present tags, however it was exported."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable
from lake_story import FIRST, SECOND, begin, go_on
from lakes import bronze, equals_log, gold, silver
from local_jobs import export

from places import Place
from strandline import Event, Query
from strandline.spark.lake import run
from strandline.spark.lake.folder import MANIFEST, Folder

FORMATS = ["parquet", "delta"]
TYPES = ("CourseDefined", "StudentSubscribed", "Paid", "odd/type")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A folder that is not there yet."""
    return tmp_path / "lake"


@pytest.mark.parametrize("format", FORMATS)
def test_a_lake_has_every_event_once(kept: Place, lake: Path, format: str):
    begin(kept)
    done = export(kept, lake, format)

    equals_log(lake, kept)
    assert (done.head, done.events, done.rewritten, done.silver, done.gold) == (13, 13, 0, 3, 0)


@pytest.mark.parametrize("format", FORMATS)
def test_several_exports_are_equal_to_one(kept: Place, lake: Path, tmp_path: Path, format: str):
    begin(kept)
    first = export(kept, lake, format, **FIRST, batch=8)
    go_on(kept)
    second = export(kept, lake, format, **SECOND, batch=8)
    once = export(kept, tmp_path / "once", format, events=["school_later"], projections="academy:Course")

    equals_log(lake, kept)
    equals_log(tmp_path / "once", kept)
    assert first.events + second.events == once.events == once.head
    for type in TYPES[:2]:
        assert silver(lake, type) == silver(tmp_path / "once", type)
    assert gold(lake, "Course") == gold(tmp_path / "once", "Course")


@pytest.mark.parametrize("format", FORMATS)
def test_an_export_of_nothing_new_changes_nothing(kept: Place, lake: Path, format: str):
    begin(kept)
    export(kept, lake, format, **FIRST)
    before = snapshot(lake)
    again = export(kept, lake, format, **FIRST)

    assert (again.events, again.rewritten) == (0, 0)
    assert snapshot(lake) == before


def test_a_lake_of_an_empty_log_is_empty_until_there_are_events(kept: Place, lake: Path):
    with kept.connect():
        pass
    assert export(kept, lake, **FIRST).head == 0
    begin(kept)
    export(kept, lake, **FIRST)

    equals_log(lake, kept)
    assert [row["id"] for row in gold(lake, "Course")] == ["c0", "c1", "c2"]


@pytest.mark.parametrize("format", FORMATS)
def test_a_retag_is_seen_in_what_was_exported_before(kept: Place, lake: Path, format: str):
    begin(kept)
    export(kept, lake, format, batch=4)
    with kept.connect() as store:
        store.retag(Query.tag("course:c1"), replace={"course": ["c7", "c8"]})
        store.retag([6], add=["vip"])
    files = snapshot(lake).keys()
    done = export(kept, lake, format, batch=4)

    equals_log(lake, kept)
    assert bronze(lake)[5]["tags"][-1] == "vip"
    assert done.rewritten == 4
    untouched = {path for path in files if "000000000001-" in path and "bronze" in path}
    assert untouched <= snapshot(lake).keys()


def test_what_is_exported_after_a_retag_is_not_written_twice(kept: Place, lake: Path):
    begin(kept)
    with kept.connect() as store:
        store.retag([1], add=["vip"])
    export(kept, lake, batch=4)
    assert export(kept, lake, batch=4).rewritten == 0
    with kept.connect() as store:
        store.retag([1], add=["new"])
    assert export(kept, lake, batch=4).rewritten == 4
    equals_log(lake, kept)


def test_events_are_in_the_folder_of_their_day(tmp_path: Path, lake: Path):
    place = Place(tmp_path / "log.db")
    begin(place)
    export(place, lake)

    assert sorted(path.name for path in (lake / "bronze").iterdir()) == [
        "date=2025-01-01",
        "date=2025-01-02",
        "date=2025-01-03",
    ]


def snapshot(lake: Path) -> dict[str, bytes]:
    """The files of a lake, without the lock."""
    files = (path for path in lake.rglob("*") if path.is_file() and path.name != "_lock")
    return {str(path.relative_to(lake)): path.read_bytes() for path in files}


def test_the_manifest_says_what_the_lake_is(tmp_path: Path, lake: Path):
    place = Place(tmp_path / "log.db")
    begin(place)
    export(place, lake)

    text = (lake / MANIFEST).read_text()
    with place.connect() as store:
        assert str(store.stats().log) in text


def test_delta_tables_may_be_optimized_by_others(kept: Place, lake: Path):
    begin(kept)
    export(kept, lake, "delta", batch=4)
    for table in ("bronze", "silver/StudentSubscribed"):
        delta = DeltaTable(lake / table)
        delta.optimize.compact()
        delta.vacuum(0, dry_run=False, enforce_retention_duration=False)
    go_on(kept)
    export(kept, lake, "delta", batch=4)
    equals_log(lake, kept)
    with kept.connect() as store:
        store.retag([2], add=["again"])
    export(kept, lake, "delta")

    equals_log(lake, kept)


@pytest.mark.parametrize("format", FORMATS)
def test_many_small_exports_do_not_leave_many_small_files(
    tmp_path: Path, lake: Path, format: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(run, "SMALL_BATCHES", 3)
    place, rewritten = Place(tmp_path / "log.db"), []
    for number in range(8):
        with place.connect() as store:
            store.append([Event("Paid", {"amount": number}), Event("Paid", {"amount": number})])
        rewritten.append(export(place, lake, format, batch=10).rewritten)
        equals_log(lake, place)

    assert rewritten == [0, 0, 0, 6, 0, 0, 0, 6]
    batches = Folder(lake).existing().batches
    assert [(batch.after, batch.until) for batch in batches] == [(0, 8), (8, 16)]
