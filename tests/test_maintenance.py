"""Check, backup and migrate: each planted fault is found, nothing is overwritten, nothing half done."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import apsw
import pytest

import strandline
from history import retagging, write_history
from strandline import AppendCondition, CorruptLog, Event, InvalidInput, NotFound, Query, SchemaMismatch
from strandline.engine.maintenance import backup_log, check_log, migrate_log
from strandline.engine.sqlite import schema


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log with conditions, streams, a payload filter and retags."""
    path = tmp_path / "log.db"
    with strandline.connect(path) as store:
        write_history(store)
    return path


def tamper(path: Path, *statements: str) -> None:
    database = apsw.Connection(str(path))
    for statement in statements:
        database.execute(statement)
    database.close()


def kinds(path: Path) -> set[str]:
    return {problem.kind for problem in check_log(path).problems}


def test_a_sound_log_has_no_problems(path: Path) -> None:
    report = check_log(path)
    assert report.problems == []
    assert (report.events, report.appends, report.conditions) == (24, 23, 21)
    # per event one entry for its type, then its tags and streams: 20 x 4, 2 plain, 2 retags, 1 added tag
    assert report.index_entries == 20 * 4 + 2 + 2 + 1


@pytest.mark.parametrize(
    ("kind", "statement"),
    [
        ("index", "delete from posting where position = 7 and tag > 0"),
        ("index", "insert into posting (tag, type, position) values (3, 1, 24)"),
        ("index", "update event set stream = 'other' where position = 4"),
        ("tags", "delete from appended_tags where position = 3"),
        ("tags", "insert into appended_tags (position, tags) values (9, 'seat:8')"),
        ("time", "update event set recorded_at = 1 where position = 9"),
        ("position", "delete from event where position = 12"),
        ("position", "delete from event where position = 3"),
        ("append", "update event set append = null where position = 12"),
        ("append", "update event set span = 5 where position = 22"),
        ("append", "update event set append = null where position = 24"),
        ("append", "update event set span = null where position = 23"),
        ("append", "update event set span = 4 where position = 24"),
        ("schema", "drop index event_by_id"),
        (
            "condition",  # the condition of the append at 2, as if it had been accepted at 8 with after = 0
            """update event set arguments = '7' || (select substr(arguments, 2) from event where position = 2)
               where position = 8""",
        ),
        (
            "condition",
            """update event set arguments = '{"after":0,"fail_if_events_match":{"items":[{"where":{"n":3}}]}}'
               where position = 22""",
        ),
        ("file", "update event set arguments = 'garbage' where position = 2"),
        ("file", "update event set arguments = '' where position = 2"),
        ("file", "update event set shape = 999 where position = 2"),
        ("file", "update event set shape = 3, arguments = '[' where position = 2"),
        ("file", "drop table posting"),
        ("position", "update event set position = 9999 where position = 24"),
        ("position", "delete from event where position = 22"),
        ("event", "update event set id = x'00' where position = 5"),
        ("event", "update event set metadata = x'ff' where position = 5"),
        ("event", "update event set metadata = x'5b315d' where position = 5"),
        ("event", "update event set recorded_at = 9223372036854775807 where position = 24"),
    ],
)
def test_a_planted_fault_is_found(path: Path, kind: str, statement: str) -> None:
    tamper(path, statement)
    assert kind in kinds(path)


def test_a_log_that_lacks_a_position_is_damaged_whoever_reads_it(path: Path) -> None:
    tamper(path, "update event set position = 9999 where position = 24")
    with strandline.connect(path) as store:
        for use in (
            lambda: list(store.read(Query.tag("seat:1"))),
            lambda: store.append(Event("A", {})),
            store.stats,
        ):
            with pytest.raises(CorruptLog, match=r"positions .* not in the log"):
                use()


def test_a_log_without_its_tables_is_damaged_whoever_reads_it(path: Path) -> None:
    tamper(path, "drop table posting")
    with strandline.connect(path) as store:
        for read in (lambda: store.count(Query.tag("seat:1")), lambda: list(store.read(Query.tag("seat:1")))):
            with pytest.raises(CorruptLog, match="no such table: posting") as damage:
                read()
            assert str(path) in damage.value.hint
    tamper(path, "pragma user_version = 0")
    with pytest.raises(CorruptLog, match="already exists"):
        strandline.connect(path)


def test_an_id_that_two_events_have_is_found(path: Path) -> None:
    tamper(
        path,
        "drop index event_by_id",
        "update event set id = (select id from event where position = 3) where position = 9",
    )
    (twin,) = [problem for problem in check_log(path).problems if problem.kind == "id"]
    assert twin.position == 9
    assert "of an earlier event" in twin.message


def test_conditions_are_judged_with_the_tags_as_of_then(path: Path) -> None:
    """Seat 99 did not exist when it was decided on, although event 3 has that tag now."""
    with strandline.connect(path) as store:
        assert store.read(Query.tag("seat:99")).head == 24
        store.append(Event("Other", {}), AppendCondition(Query.tag("seat:98")))
    tamper(path, "update event set arguments = replace(arguments, '22', '23') where position = 25")
    assert kinds(path) == set()


def test_a_condition_that_a_retag_should_have_refused_is_found(path: Path) -> None:
    with strandline.connect(path) as store:
        store.append(Event("Other", {}), AppendCondition(Query.tag("seat:99"), after=24))
    assert kinds(path) == set()
    tamper(
        path, "update event set arguments = '5 ' || substr(arguments, 3) where position = 25"
    )  # after = 19
    problems = check_log(path).problems
    assert [(problem.kind, problem.position) for problem in problems] == [("condition", 25)]
    assert "21" in problems[0].message


def test_a_damaged_file_is_reported_and_not_raised(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4 * 4096)
        file.write(os.urandom(path.stat().st_size - 4 * 4096))
    assert "file" in kinds(path)


def test_check_cannot_see_changed_data_as_the_manual_says(path: Path) -> None:
    tamper(path, "update event set data = cast('{\"n\":666}' as blob) where position = 5")
    assert check_log(path).problems == []


def test_check_cannot_see_a_lost_wal_as_the_manual_says(path: Path, tmp_path: Path) -> None:
    """The newest appends are in the -wal file until they are moved: without it, the log ends earlier and is sound."""
    lost = tmp_path / "lost.db"
    with strandline.connect(path) as store:
        store.append([Event("New", {}) for _ in range(3)])
        head = store.head()
        with_wal = tmp_path / "whole.db"
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{path}{suffix}", f"{with_wal}{suffix}")
        shutil.copyfile(path, lost)

    assert check_log(with_wal).events == head
    assert (check_log(lost).events, check_log(lost).problems) == (head - 3, [])


def test_a_check_beside_a_process_that_retags_finds_nothing_that_is_not_there(path: Path) -> None:
    with strandline.connect(path) as store, retagging(store):
        for _ in range(15):
            assert kinds(path) == set()


def test_a_file_that_is_refused_gets_no_company(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no store, just notes")
    for attempt in (strandline.connect, check_log, migrate_log):
        with pytest.raises(InvalidInput):
            attempt(tmp_path / "notes.txt")
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]
    with pytest.raises(InvalidInput, match="regular file"):
        strandline.connect("/dev/null")


def test_check_reports_progress_up_to_the_end(path: Path) -> None:
    seen: list[tuple[int, int]] = []
    check_log(path, lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] == 48


def test_check_of_nothing_says_so_and_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        check_log(tmp_path / "none.db")
    with pytest.raises(InvalidInput):
        check_log("memory:")
    assert list(tmp_path.iterdir()) == []


def test_a_backup_under_constant_writes_is_a_sound_prefix_of_the_log(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    with strandline.connect(path) as store:
        is_done = threading.Event()

        def write() -> None:
            while not is_done.is_set():
                store.append([Event("Noise", b"x" * 2000) for _ in range(20)])

        writer = threading.Thread(target=write)
        writer.start()
        try:
            report = backup_log(path, target)
        finally:
            is_done.set()
            writer.join()
        with strandline.connect(target) as copy:
            assert copy.head() == report.head
            assert copy.stats().log == store.stats().log
            assert list(copy.read()) == list(store.read(until=report.head))
    assert check_log(target).problems == []
    assert target.stat().st_mode & 0o777 == 0o600


def test_a_backup_never_overwrites(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "precious.txt"
    target.write_text("precious")
    with pytest.raises(InvalidInput, match="exists already"):
        backup_log(path, target)
    assert target.read_text() == "precious"
    assert sorted(tmp_path.glob("*unfinished*")) == []


def test_a_backup_of_nothing_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        backup_log(tmp_path / "none.db", tmp_path / "copy.db")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def next_version(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strandline as it might be one schema later, with `path` from before."""
    assert path.exists()
    later = schema.MIGRATIONS | {
        "schema_005": "alter table log add column note text; update log set note = 'new'"
    }
    monkeypatch.setattr(schema, "MIGRATIONS", later)


@pytest.mark.usefixtures("next_version")
def test_an_older_schema_is_refused_until_it_is_migrated(path: Path) -> None:
    with pytest.raises(SchemaMismatch) as refusal:
        strandline.connect(path)
    assert refusal.value.hint == f"run: strandline migrate {path}"
    assert migrate_log(path, dry_run=True).steps == ["schema_005"]
    with pytest.raises(SchemaMismatch):
        strandline.connect(path)
    report = migrate_log(path)
    assert (report.before, report.after, report.steps) == (4, 5, ["schema_005"])
    assert migrate_log(path).steps == []
    with strandline.connect(path) as store:
        assert store.stats().schema == 5
        assert store.head() == 24


@pytest.mark.usefixtures("next_version")
def test_a_migration_that_fails_leaves_the_old_schema(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = {
        **schema.MIGRATIONS,
        "schema_006": "create table novelty (text text); create table novelty (text text)",
    }
    monkeypatch.setattr(schema, "MIGRATIONS", broken)
    with pytest.raises(CorruptLog, match="table novelty already exists"):
        migrate_log(path)
    monkeypatch.undo()
    assert migrate_log(path).before == 4
    assert kinds(path) == set()


def test_a_newer_schema_is_refused_with_the_way_out(path: Path) -> None:
    tamper(path, "pragma user_version = 9")
    for attempt in (strandline.connect, migrate_log):
        with pytest.raises(SchemaMismatch) as refusal:
            attempt(path)
        assert "pip install -U strandline" in refusal.value.hint


def test_an_empty_file_is_nothing_to_migrate(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    with pytest.raises(NotFound, match="is empty"):
        migrate_log(tmp_path / "empty.db")
    assert (tmp_path / "empty.db").stat().st_size == 0


def test_who_opens_a_file_by_another_name_waits_for_the_same_lock(path: Path, tmp_path: Path) -> None:
    (tmp_path / "other.db").symlink_to(path)
    with strandline.connect(tmp_path / "other.db") as store:
        store.append(Event("A", {}))
    assert not (tmp_path / "other.db.lock").exists()
    assert check_log(tmp_path / "other.db").problems == []
