"""Snapshots as engines keep them: the newest of a version, and nothing depends on them."""

from __future__ import annotations

from pathlib import Path

import pytest

import strandline
from places import Place
from strandline import Event, SchemaMismatch, StoreClosed
from strandline.engine import Snapshot
from strandline.engine.maintenance import check_log, migrate_log
from strandline.engine.postgres import schema as database
from strandline.engine.sqlite import schema as file

ONE = Snapshot("school.Course", "c1", "1", 10, b'{"taken":3}')


def test_a_snapshot_comes_back_as_it_was(place: Place) -> None:
    with place.connect() as store:
        engine = store.engine
        assert engine.load_snapshot("school.Course", "c1") is None
        engine.save_snapshot(ONE)
        engine.save_snapshot(Snapshot("school.Course", "c2", "1", 7, b"\x00\xff"))
        assert engine.load_snapshot("school.Course", "c1") == ONE
        assert engine.load_snapshot("school.Course", "c2") == Snapshot(
            "school.Course", "c2", "1", 7, b"\x00\xff"
        )
        assert engine.load_snapshot("school.Student", "c1") is None
        assert store.append(Event("A", {})).position == 1


@pytest.mark.parametrize(
    ("version", "position", "is_kept"), [("1", 11, True), ("1", 10, False), ("1", 9, False), ("2", 3, True)]
)
def test_the_newest_of_a_version_is_kept(place: Place, version: str, position: int, is_kept: bool) -> None:
    with place.connect() as store:
        later = Snapshot("school.Course", "c1", version, position, b"later")
        store.engine.save_snapshot(ONE)
        store.engine.save_snapshot(later)
        assert store.engine.load_snapshot("school.Course", "c1") == (later if is_kept else ONE)


def test_snapshots_stay_when_the_process_ends(kept: Place) -> None:
    with kept.connect() as store:
        store.engine.save_snapshot(ONE)
    with kept.connect() as store:
        assert store.engine.load_snapshot("school.Course", "c1") == ONE
    assert check_log(kept.url, **kept.options).problems == []


def test_a_closed_store_keeps_none(kept: Place) -> None:
    store = kept.connect()
    store.close()
    with pytest.raises(StoreClosed):
        store.engine.save_snapshot(ONE)


def test_a_file_from_before_snapshots_is_migrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before:
        before.setattr(file, "MIGRATIONS", {"schema_001": file.MIGRATIONS["schema_001"]})
        with strandline.connect(tmp_path / "old.db") as store:
            store.append(Event("A", {}))
    _migrated(Place(tmp_path / "old.db"))


def test_a_log_from_before_snapshots_is_migrated(postgres: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before:
        before.setattr(database, "MIGRATIONS", {"001 the log": database.MIGRATIONS["001 the log"]})
        before.setattr(
            database, "FUNCTIONS", [name for name in database.FUNCTIONS if name != "save_snapshot_v1"]
        )
        with postgres.connect() as store:
            store.append(Event("A", {}))
    _migrated(postgres)


def _migrated(place: Place) -> None:
    with pytest.raises(SchemaMismatch, match="has schema 1"):
        place.connect()
    assert migrate_log(place.url, **place.options).before == 1
    with place.connect() as store:
        store.engine.save_snapshot(ONE)
        assert store.engine.load_snapshot("school.Course", "c1") == ONE
        assert store.head() == 1
