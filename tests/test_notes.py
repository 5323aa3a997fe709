"""When a log was last checked and backed up."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import apsw

import strandline
from places import Place
from strandline import Event
from strandline.engine.maintenance import backup_log, check_log


def test_a_check_that_finds_nothing_is_noted(kept: Place) -> None:
    with kept.connect() as store:
        store.append(Event("A", {}))
        assert store.stats().last_check is None
        times = [store.stats().now]
        for _ in range(2):
            assert check_log(kept.url, **kept.options).problems == []
            noted = store.stats().last_check
            assert noted is not None
            times += [noted, store.stats().now]
        assert times == sorted(times)
        assert store.stats().last_backup is None
        store.append(Event("A", {}))


def test_a_check_that_finds_damage_is_not_noted(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    with strandline.connect(path) as store:
        store.append(Event("A", {}, tags=["x"]))
    assert check_log(path).problems == []
    with strandline.connect(path) as store:
        noted = store.stats().last_check
    database = apsw.Connection(str(path))
    database.execute("insert into posting (tag, type, position) values (1, 1, 99)")
    database.close()
    assert check_log(path).problems != []
    with strandline.connect(path) as store:
        assert store.stats().last_check == noted


def test_a_backup_is_noted_in_the_log_and_not_in_the_copy(tmp_path: Path) -> None:
    path, copy = tmp_path / "log.db", tmp_path / "copy.db"
    before = datetime.now(UTC)
    with strandline.connect(path) as store:
        store.append(Event("A", {}))
        backup_log(path, copy)
        noted = store.stats().last_backup
        assert noted is not None
        assert before <= noted <= datetime.now(UTC)
    with strandline.connect(copy) as store:
        assert store.stats().last_backup is None
