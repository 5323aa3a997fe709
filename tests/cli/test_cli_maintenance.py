from __future__ import annotations

import stat
from pathlib import Path

import apsw
import pytest

import strandline
from strandline import Event
from strandline.engine.maintenance import MigrationReport


@pytest.fixture
def damaged(school):
    """A store that has lost the index entries of its events."""
    database = apsw.Connection(school)
    database.execute("update log set indexed_to = 5")
    database.close()
    return school


def test_head_and_stats_are_json_when_piped(cli, school):
    assert cli("head", school).rows == [{"head": 5}]
    (stats,) = cli("stats", school).rows
    with strandline.connect(school) as store:
        expected = store.stats()
    assert (stats["head"], stats["appends"], stats["engine"]) == (5, 5, "sqlite")
    assert stats["log"] == str(expected.log)


def test_check_counts_what_it_looked_at(cli, school):
    done = cli("check", school)
    assert (done.code, done.err) == (0, "")
    (report,) = done.rows
    assert (report["events"], report["appends"], report["problems"], report["ok"]) == (5, 5, [], True)


def test_check_exits_with_1_and_lists_the_problems_of_a_damaged_log(cli, damaged):
    done = cli("check", damaged)
    assert done.code == 1
    (report,) = done.rows
    assert report["ok"] is False
    assert report["problems"][0].keys() == {"kind", "position", "message"}
    assert 1 in [problem["position"] for problem in report["problems"]]


def test_problems_are_a_table_on_a_terminal(terminal, damaged):
    ran = terminal("check", damaged, NO_COLOR="1").finish()
    assert ran.code == 1
    assert "found" in ran.out
    assert "no problems" not in ran.out
    assert "what is wrong" in ran.out


def test_a_backup_is_a_store_with_the_same_events(cli, school):
    done = cli("backup", school, "copy.db")
    assert (done.code, done.err) == (0, "")
    assert done.rows[0]["head"] == 5
    assert done.rows[0]["size_bytes"] == Path("copy.db").stat().st_size
    assert stat.S_IMODE(Path("copy.db").stat().st_mode) == 0o600
    assert cli("read", "copy.db").out == cli("read", school).out


def test_a_backup_never_overwrites(cli, school):
    Path("copy.db").write_text("precious")
    done = cli("backup", school, "copy.db")
    assert (done.code, done.out) == (2, "")
    assert Path("copy.db").read_text() == "precious"


def test_a_backup_of_the_store_in_the_environment_needs_only_a_target(cli, school, monkeypatch):
    monkeypatch.setenv("STRANDLINE_URL", school)
    assert cli("backup", "copy.db").code == 0
    assert cli("head", "copy.db").rows == [{"head": 5}]


def test_a_backup_needs_a_target(cli, school):
    done = cli("backup", school)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: no target was named")


def test_a_current_store_needs_no_migration(cli, school):
    for options in ([], ["--dry-run"]):
        (report,) = cli("migrate", school, *options).rows
        assert report["before"] == report["after"]
        assert (report["steps"], report["dry_run"]) == ([], bool(options))


def test_the_steps_of_a_migration_are_listed(cli, monkeypatch, school):
    asked = []

    def migrate_log(url, *, dry_run, log):
        asked.append((url, dry_run, log))
        return MigrationReport(1, 2, ["002: [red]add a column"])

    monkeypatch.setattr("strandline.cli.migrate.migrate_log", migrate_log)
    assert cli("migrate", school, "--dry-run").rows[0]["steps"] == ["002: [red]add a column"]
    assert asked == [(school, True, "default")]


def test_a_store_from_a_newer_version_is_refused_with_a_hint(cli, school):
    database = apsw.Connection(school)
    database.execute("pragma user_version = 999")
    database.close()
    done = cli("read", school)
    assert (done.code, done.out) == (2, "")
    assert "schema 999" in done.err
    assert "hint: " in done.err


def test_a_store_that_cannot_be_written_is_an_error_without_traceback(cli):
    done = cli("append", "/proc/nowhere.db", "A", "{}")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")


def test_commands_leave_no_open_store_behind(cli, school):
    assert cli("read", school).code == 0
    with strandline.connect(school) as store:
        assert store.append(Event("A", {})).position == 6
