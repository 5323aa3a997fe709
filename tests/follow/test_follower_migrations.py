"""Logs from before there were followers."""

from __future__ import annotations

from pathlib import Path

import pytest

import strandline
from follow.following import Seen
from places import Place
from strandline import (
    Event,
    SchemaMismatch,
)
from strandline.engine.maintenance import migrate_log
from strandline.engine.postgres import schema as database
from strandline.engine.sqlite import schema as file


def test_a_file_from_before_followers_is_migrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before:
        older = {name: file.MIGRATIONS[name] for name in ("schema_001", "schema_002")}
        before.setattr(file, "MIGRATIONS", older)
        with strandline.connect(tmp_path / "old.db") as store:
            store.append(Event("A", {}))
    migrated(Place(tmp_path / "old.db"))


def test_a_log_from_before_followers_is_migrated(postgres: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before:
        older = {name: database.MIGRATIONS[name] for name in ("001 the log", "002 snapshots")}
        before.setattr(database, "MIGRATIONS", older)
        with postgres.connect() as store:
            store.append(Event("A", {}))
    migrated(postgres)


def migrated(place: Place) -> None:
    with pytest.raises(SchemaMismatch, match="has schema 2"):
        place.connect()
    assert migrate_log(place.url, **place.options).before == 2
    with place.connect() as store:
        seen = Seen()
        assert store.follower("f").catch_up(seen) == 1
        assert seen.positions == [1]
