from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

import strandline
from strandline import Event

APPLICATION = """
from strandline import Query
from strandline.follow import Call, NdjsonFile, Undeliverable, Worker

def count(events, tx):
    for event in events:
        tx.execute("insert into counted values (?)", (event.position,))

def refuse(events, tx):
    raise Undeliverable("never")

def app(store):
    return [
        Worker(store.follower("counter"), count),
        store.outbox("courses", Query.types("CourseDefined"), "file", NdjsonFile("courses.ndjson")),
    ]

def failing(store):
    return [*app(store), Worker(store.follower("failing"), refuse, on_failure="stop")]

def burying(store):
    return [Worker(store.follower("burying"), refuse)]
"""


@pytest.fixture(autouse=True)
def _application(tmp_path, school):
    (tmp_path / "running.py").write_text(APPLICATION)
    with strandline.connect(school) as store:
        tx = store.engine.transaction()
        tx.begin()
        tx.execute("create table counted (position integer primary key)")
        tx.commit()
        tx.end()


def counted(school):
    with strandline.connect(school) as store:
        tx = store.engine.transaction()
        tx.begin()
        try:
            return [position for (position,) in tx.execute("select position from counted order by 1")]
        finally:
            tx.end()


def states(school):
    with strandline.connect(school) as store:
        return {status.name: (status.state, status.position) for status in store.followers()}


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_it_runs_until_a_signal_and_says_in_lines_how_it_goes(command, school, tmp_path, name):
    arguments = [*command, "run", "running:app", school]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout
        assert running.stderr
        read_until(running.stdout, "counter running at 5 of 5")
        with strandline.connect(school) as store:
            store.append(Event("CourseDefined", {"course": "c3"}))
        read_until(running.stdout, "counter running at 6 of 6")
        running.send_signal(getattr(signal, name))
        rest = running.stdout.read()
        assert running.stderr.read() == ""
        assert running.wait(60) == 0
    assert "counter idle at 6 of 6" in rest
    assert counted(school) == [1, 2, 3, 4, 5, 6]
    assert states(school)["counter"] == ("idle", 6)
    lines = (tmp_path / "courses.ndjson").read_text().splitlines()
    assert [json.loads(line)["position"] for line in lines] == [1, 2, 6]


def read_until(pipe, text):
    while text not in (line := pipe.readline()):
        assert line, f"it ended without {text!r}"


def test_once_ends_at_the_present_head(process, school):
    done = process("run", "running:app", school, "--once", "--json")
    assert (done.code, done.err) == (0, "")
    last = {row["name"]: (row["state"], row["position"]) for row in done.rows}
    assert last == {"counter": ("idle", 5), "outbox:courses:file": ("idle", 5)}
    assert counted(school) == [1, 2, 3, 4, 5]


def test_if_one_fails_all_end_and_the_error_is_told(process, school):
    done = process("run", "running:failing", school)
    assert done.code == 2
    assert "follower 'failing' failed 1 times at event 1" in done.err
    assert "Traceback" not in done.err
    assert {state for state, _ in states(school).values()} == {"idle", "failed"}


def test_dead_letters_are_told(process, school):
    done = process("run", "running:burying", school, "--once")
    assert done.code == 0
    assert "burying idle at 5 of 5, 5 dead letters" in done.out


def test_on_a_terminal_it_is_a_table_that_changes(terminal, school):
    screen = terminal("run", "running:app", school, NO_COLOR="1")
    screen.wait_for("running; Ctrl-C ends it")
    screen.wait_for("outbox:courses:file")
    screen.interrupt()
    ran = screen.finish()
    assert ran.code == 0
    assert "dead letters" in ran.out
    assert "Traceback" not in ran.out


@pytest.mark.parametrize("takes", ["", "store, more", "*, store"])
def test_a_function_that_cannot_be_called_with_the_store_is_told(cli, school, tmp_path, monkeypatch, takes):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "odd", raising=False)
    (tmp_path / "odd.py").write_text(f"def app({takes}): return []\n")
    done = cli("run", "odd:app", school)
    assert (done.code, done.out) == (2, "")
    assert f"it takes ({takes})" in done.err


@pytest.mark.parametrize(
    "arguments", [["run", ".running:app", "school.db"], ["models", "rebuild", ".m:Course", "school.db"]]
)
def test_an_import_path_that_begins_with_a_dot_is_told(cli, school, arguments):
    done = cli(*arguments)
    assert (done.code, done.out) == (2, "")
    assert "names no" in done.err


def test_what_cannot_be_run_is_told(cli, school):
    assert "names no application" in cli("run", "running", school).err
    assert cli("run", "nowhere:app", school).code == 2
    assert cli("run", "running:app", "missing.db").code == 2


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("def app(store:\n", "module 'broken' cannot be imported: SyntaxError: '(' was never closed"),
        ("import no_such_module", "module 'broken' cannot be imported: ModuleNotFoundError: No module named"),
        (
            "from json import no_such_name",
            "module 'broken' cannot be imported: ImportError: cannot import name",
        ),
        ("1 / 0", "module 'broken' cannot be imported: ZeroDivisionError: division by zero"),
        ("def app(store):\n    return {}['workers']", "broken:app failed: KeyError: 'workers'"),
    ],
)
def test_a_mistake_in_the_application_is_one_line_with_its_place(process, school, tmp_path, code, told):
    (tmp_path / "broken.py").write_text(code)
    ran = process("run", "broken:app", school, "--once")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error: {told}")
    assert f"broken.py:{code.count(chr(10)) + (not code.endswith(chr(10)))})" in ran.err
    assert "\nhint: correct it. To see the whole traceback, " in ran.err
    assert "Traceback" not in ran.err


MODELS = """
from strandline import DomainEvent, Projection, Query, TagId, on
from strandline.follow import NdjsonFile, ReadModel

class CourseId(TagId): ...

class CourseDefined(DomainEvent):
    course: CourseId
    capacity: int = 0

class Course(Projection, version=VERSION):
    id: CourseId
    capacity: int = 0

    @on
    def defined(self, event: CourseDefined) -> None:
        self.capacity = event.capacity

courses = ReadModel(Course, table="courses")

def app(store):
    yield courses.worker(store)
    yield store.outbox("courses", Query.types("CourseDefined"), "file", NdjsonFile("published.ndjson"))
"""


def test_a_read_model_to_be_rebuilt_stops_no_other(process, school, tmp_path):
    (tmp_path / "modelling.py").write_text(MODELS.replace("VERSION", "1"))
    assert process("run", "modelling:app", school, "--once").code == 0
    with strandline.connect(school) as store:
        store.append(Event("CourseDefined", {"course": "c9"}, tags=["course:c9"]))
    (tmp_path / "modelling.py").write_text(MODELS.replace("VERSION", "2"))
    ran = process("run", "modelling:app", school, "--once")
    assert ran.code == 2
    assert ran.err.startswith(
        "warning: model:courses waits: 'model:courses' was made by another version of its projection\n"
        f"hint: run: strandline models rebuild modelling:courses {school}\n"
    )
    assert len((tmp_path / "published.ndjson").read_text().splitlines()) == 3


def test_a_read_model_goes_on_when_it_was_rebuilt(command, process, school, tmp_path):
    (tmp_path / "modelling.py").write_text(MODELS.replace("VERSION", "1"))
    assert process("run", "modelling:app", school, "--once").code == 0
    (tmp_path / "modelling.py").write_text(MODELS.replace("VERSION", "2"))
    arguments = [*command, "run", "modelling:app", school]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout
        assert running.stderr
        read_until(running.stderr, "model:courses waits")
        assert process("models", "rebuild", "modelling:courses", school).code == 0
        read_until(running.stdout, "model:courses running")
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=60)
        assert running.returncode == 0


def test_an_application_may_make_its_log(process, tmp_path):
    (tmp_path / "modelling.py").write_text(MODELS.replace("VERSION", "1"))
    refused = process("run", "modelling:app", "first.db", "--once")
    assert (refused.code, (tmp_path / "first.db").exists()) == (2, False)
    assert "hint: check the URL; if the log is to begin with this application, add --create" in refused.err
    assert process("run", "modelling:app", "first.db", "--once", "--create").code == 0
    assert (tmp_path / "first.db").exists()
