"""`strandline spark …`: each job from the command line, in the session of the tests."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from academy import Course, CourseDefined, CourseId, StudentId, StudentSubscribed
from pyspark.sql import Row

import strandline
from strandline.cli.app import run
from strandline.cli.spark import audit, export, fold, import_events, rebuild, report, retag

JOBS = (audit, export, fold, import_events, rebuild, report, retag)
COMMAND = [sys.executable, "-m", "strandline.cli"]


class Ran:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def rows(self):
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def cli(spark, capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("STRANDLINE_URL", "STRANDLINE_LOG"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: object) -> Ran:
        capfd.readouterr()
        code = run(["spark", *map(str, arguments)])
        return Ran(code, *capfd.readouterr())

    return call


@pytest.fixture
def log(tmp_path: Path) -> str:
    """Two courses, and three students of the first."""
    with strandline.connect(tmp_path / "school.db") as store:
        for course in ("c1", "c2"):
            store.append(CourseDefined(course=CourseId(course), capacity=3))
        for student in ("s1", "s2", "s3"):
            store.append(StudentSubscribed(student=StudentId(student), course=CourseId("c1")))
    return "school.db"


def test_fold_gives_a_line_for_each_key(cli, log):
    done = cli("fold", log, "academy:Course")
    assert (done.code, done.err) == (0, "")
    assert sorted(done.rows, key=lambda row: row["id"]) == [
        {"id": "c1", "exists": True, "capacity": 3, "taken": 3, "position": 5},
        {"id": "c2", "exists": True, "capacity": 3, "taken": 0, "position": 2},
    ]
    assert sorted(row["taken"] for row in cli("fold", log, "academy:Course", "--until", 4).rows) == [0, 2]
    assert len(cli("fold", log, "academy:Course", "--limit", 1).rows) == 1


@pytest.fixture
def far_from_utc(monkeypatch):
    """This process has another time zone than UTC."""
    with monkeypatch.context() as here:
        here.setenv("TZ", "Asia/Kolkata")
        time.tzset()
        yield
    time.tzset()


def test_fold_tells_times_in_utc_whatever_the_zone_of_the_machine(cli, log, far_from_utc):
    with strandline.connect(log) as store:
        begun = {f"c{event.position}": event.recorded_at for event in store.read(limit=2)}
    done = cli("fold", log, "academy:Beginning")
    assert done.code == 0
    for row in done.rows:
        assert [row["at"]] == row["all"]
        assert row["at"].endswith("Z")
        assert datetime.fromisoformat(row["at"]) == begun[row["id"]]


def test_audit_tells_times_in_utc_whatever_the_zone_of_the_machine(cli, log, far_from_utc, monkeypatch):
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    row = Row(first=1, recorded_at=at.astimezone().replace(tzinfo=None))
    report = SimpleNamespace(
        details=SimpleNamespace(
            columns=["first", "recorded_at"],
            limit=lambda _: SimpleNamespace(toLocalIterator=lambda: iter([row])),
        ),
        figures=lambda: {"violations": 1},
        ok=False,
    )
    monkeypatch.setattr("strandline.spark.audit", lambda *_, **__: report)
    (told,) = cli("audit", log).rows
    assert told["details"] == [{"first": 1, "recorded_at": "2026-01-02T03:04:05Z"}]


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.NAME)
def test_the_example_at_the_end_of_each_help_runs(cli, log, tmp_path, job):
    example = cli(job.NAME, "--help").out.partition("\nExample:\n")[2].strip()
    assert example.startswith(f"strandline spark {job.NAME} {log}")
    with strandline.connect(log) as store:
        (tmp_path / "events.ndjson").write_bytes(b"".join(store.read().ndjson()))
    done = cli(*shlex.split(example.replace("school:", "academy:"))[2:])
    assert (done.code, done.err) == (0, "")
    assert done.rows


def test_the_store_may_come_from_the_environment(cli, log, monkeypatch):
    monkeypatch.setenv("STRANDLINE_URL", log)
    assert len(cli("fold", "academy:Course").rows) == 2
    assert cli("fold").code == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("fold", "school.db", "academy:Nobody"), "academy"),
        (("fold", "nowhere.db", "academy:Course"), "nowhere.db"),
        (("fold", "school.db", "nonsense"), "nonsense"),
        (("fold", "school.db"), "the projection is missing"),
        (("export", "school.db"), "the lake is missing"),
        (("retag", "school.db"), "the rule is missing"),
        (("import", "school.db"), "the source is missing"),
        (("import",), "the source is missing"),
        (("export", "school.db", "lake", "--events", "nomod"), "no module 'nomod'\n"),
        (("export", "school.db", "lake", "--events", ".nomod"), "'.nomod' is no import path"),
        (("rebuild", "school.db"), "--model"),
        (("rebuild", "school.db", "--model", "academy:Course"), "academy:Course"),
        (("import", "school.db", "nothing.ndjson"), "nothing.ndjson"),
        (("retag", "school.db", "academy:nobody"), "academy"),
    ],
)
def test_bad_input_is_one_clear_line_with_the_fix(cli, log, arguments, told):
    done = cli(*arguments)
    assert (done.code, done.out) == (2, "")
    message, hint, *more = done.err.splitlines()
    assert message.startswith("error: ")
    assert hint.startswith("hint: ")
    assert told in done.err
    assert more == []


def test_rebuild_makes_several_tables_in_one_pass(cli, log):
    models = ("--model", "academy:Course=courses", "--model", "academy:Student=students")
    done = cli("rebuild", log, *models)
    assert (done.code, done.err) == (0, "")
    with strandline.connect(log) as store:
        assert store.engine.rows("select id, taken from courses order by id") == [("c1", 3), ("c2", 0)]
        assert store.engine.rows("select count(*) from students") == [(3,)]


def test_import_appends_what_read_wrote(cli, log, tmp_path):
    with strandline.connect(log) as store:
        (tmp_path / "events.ndjson").write_bytes(b"".join(store.read().ndjson()))
    with strandline.connect("copy.db"):
        pass
    first, again = (cli("import", "copy.db", "events.ndjson") for _ in range(2))
    assert (first.code, first.rows[0]["written"], again.code, again.rows[0]["written"]) == (0, 5, 0, 0)
    with strandline.connect("copy.db") as store:
        assert store.head() == 5
        assert store.project(Course, "c1").taken == 3


def test_without_a_jvm_the_program_says_what_to_install(log, tmp_path):
    environment = {**os.environ, "JAVA_HOME": str(tmp_path)}
    done = subprocess.run(
        [*COMMAND, "spark", "fold", str(tmp_path / "school.db"), "academy:Course"],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 2
    assert "JAVA_HOME" in done.stderr
    assert "strandline[jre]" in done.stderr
    assert "Traceback" not in done.stderr
