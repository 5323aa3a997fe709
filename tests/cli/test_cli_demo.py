from __future__ import annotations

import json
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import strandline
from strandline import MissingDependency
from strandline.cli.demo import command, race
from strandline.cli.demo.courses import Course, Refused, Sales, Student, define, subscribe
from strandline.cli.demo.race import COURSES, open_term, sales_of

SMALL = ("--students", "30", "--clients", "8", "--no-spark")


@pytest.fixture
def store():
    with strandline.connect("memory:") as opened:
        yield opened


def test_no_seat_is_sold_twice(cli):
    done = cli("demo", "--path", "demo.db", *SMALL, "--json")
    (result,) = done.rows
    assert done.code == 0
    assert result["check"]["problems"] == []
    assert result["decisions"] == 30 * 4
    assert [course["sold_twice"] for course in result["courses"]] == [0] * 6
    assert {course["course"]: course["sold"] for course in result["courses"]}["fencing"] == 5
    assert sum(course["sold"] for course in result["courses"]) == result["subscribed"]
    assert cli("head", "demo.db").rows == [{"head": 6 + result["subscribed"]}]


def test_the_clients_really_get_in_each_others_way(cli):
    (result,) = cli(
        "demo", "--path", "demo.db", "--students", "100", "--clients", "32", "--no-spark", "--json"
    ).rows
    assert result["conflicts"] > 0


def test_the_same_store_again_plays_another_term(cli):
    for names in (["algebra", "fencing"], ["algebra-2", "fencing-2"]):
        (result,) = cli("demo", "--path", "demo.db", *SMALL, "--json").rows
        played = [course["course"] for course in result["courses"]]
        assert [played[0], played[-1]] == names
        assert result["courses"][-1]["sold"] == 5


def test_a_demo_without_a_path_uses_a_new_store_each_time(cli):
    paths = {cli("demo", *SMALL, "--json").rows[0]["path"] for _ in range(2)}
    assert len(paths) == 2
    assert all(Path(path).exists() for path in paths)
    assert list(Path().iterdir()) == []


def test_the_demo_shows_its_tables_also_when_piped_and_its_next_commands_work(process):
    done = process("demo", "--path", "demo.db", *SMALL)
    assert (done.code, done.err) == (0, "")
    for text in (
        "refused: full",
        "No seat was sold twice",
        "decided again",
        "The last events",
        "no problems found",
    ):
        assert text in done.out
    commands = done.out.partition("What to try next\n")[2].strip().splitlines()
    assert len(commands) >= 3
    for line in commands:
        program, *arguments = shlex.split(line)
        assert "strandline" in program
        expected = 1 if "--fail-if-tag" in arguments else 0
        stop = ["--no-follow"] if arguments[0] == "tail" else []
        assert process(*arguments, *stop).code == expected, line


def test_clients_that_ignore_the_boundary_are_found_out(cli, monkeypatch):
    def careless(store, student, course):
        stale = Course(course)
        stale.seats = store.project(Course(course)).seats
        store.append(list(subscribe(Student(student), stale)))
        return ""

    monkeypatch.setattr(race, "answer", careless)
    done = cli("demo", "--path", "demo.db", *SMALL, "--json")
    assert done.code == 1
    assert any(course["sold_twice"] for course in done.rows[0]["courses"])


def test_seats_are_counted_from_the_log_alone(store):
    names = open_term(store).courses()
    assert race.answer(store, "s1", names[0]) == ""
    first, *others = sales_of(store, names)
    assert (first.id, first.seats, first.sold, first.sold_twice) == ("algebra", 100, [1], 0)
    assert [course.sold for course in others] == [[]] * 5


@pytest.mark.parametrize(("sold", "twice"), [([1, 2, 3], 0), ([1, 1], 1), ([1, 2, 3, 4], 1), ([], 0)])
def test_a_seat_sold_again_or_not_there_counts_as_sold_twice(sold, twice):
    course = Sales("c")
    course.seats, course.sold = 3, sold
    assert course.sold_twice == twice


def test_conflicts_are_counted(store):
    store.execute(define, Course("c1"), 5)
    wishes = [(f"s{number}", "c1") for number in range(8)]
    outcome = race.run_clients(store, wishes, 8, lambda done: None)
    assert (outcome.subscribed, outcome.refused) == (5, {("c1", "course full"): 3})
    assert outcome.conflicts == store.stats().refused
    again = race.run_clients(store, wishes, 1, lambda done: None)
    assert (again.subscribed, again.conflicts) == (0, 0)


def test_the_rules_of_the_courses(store):
    store.execute(define, Course("c1"), 1)
    with pytest.raises(Refused, match="defined already"):
        store.execute(define, Course("c1"), 2)
    assert race.answer(store, "s1", "nowhere") == "no such course"
    assert race.answer(store, "s1", "c1") == ""
    assert race.answer(store, "s1", "c1") == "subscribed already"
    assert race.answer(store, "s2", "c1") == "course full"
    for number in range(2, 5):
        store.execute(define, Course(f"c{number}"), 9)
    assert [race.answer(store, "s1", f"c{number}") for number in (2, 3, 4)] == ["", "", "too many courses"]


@pytest.mark.parametrize(("on_path", "expected"), [(True, "strandline"), (False, "venv/bin/strandline")])
def test_the_next_commands_name_the_program_as_this_shell_finds_it(
    cli, monkeypatch, tmp_path, on_path, expected
):
    (tmp_path / "strandline").touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path) if on_path else "")
    monkeypatch.setattr(sys, "argv", ["venv/bin/strandline", "demo"])
    commands = cli("demo", "--path", str(tmp_path / "demo.db"), *SMALL).out.partition("What to try next\n")[2]
    assert {shlex.split(line)[0] for line in commands.strip().splitlines()} == {expected}


def test_the_demo_runs_on_a_database(cli, database):
    log = f"{database.log}-demo"
    done = cli("demo", "--path", database.url, "--log", log, *SMALL)
    assert (done.code, done.err) == (0, "")
    assert "No seat was sold twice" in done.out
    assert f"stats {database.url} --log {log}" in done.out
    assert cli("head", database.url, "--log", log).rows[0]["head"] > 6


def test_a_log_of_the_environment_is_not_asked_of_a_new_file(cli, monkeypatch):
    monkeypatch.setenv("STRANDLINE_LOG", "courses")
    assert cli("demo", *SMALL, "--json").code == 0


def test_what_is_made_of_a_log_is_beside_its_file_or_in_a_new_folder():
    assert command.Target("terms/demo.db", "default").beside == Path("terms/demo").absolute()
    assert command.Target("sqlite:///demo.db", "default").beside == Path("demo").absolute()
    beside = command.Target("postgresql://app:secret@127.0.0.1/school", "courses").beside
    assert beside.name == "courses"
    assert "secret" not in str(beside)
    assert "postgresql" not in str(beside)


@pytest.fixture
def without_spark(monkeypatch):
    here = {"pyspark": None}
    monkeypatch.setattr(command, "find_spec", here.get)
    return here


def test_spark_is_installed_when_the_race_is_over(cli, without_spark, monkeypatch):
    def install(words, **_):
        assert words == ["make", "a spark"]
        without_spark["pyspark"] = "here"
        return command.subprocess.CompletedProcess(words, 0)

    monkeypatch.setattr(command.subprocess, "run", install)
    monkeypatch.setattr("strandline.cli.demo.pipeline.run_pipeline", lambda *_, **__: None)
    done = cli("demo", *SMALL[:-1], "--install-spark", "make 'a spark'")
    assert done.code == 0
    assert "No seat was sold twice" in done.out
    assert "now Spark" in done.err


def test_spark_that_cannot_be_installed_is_told(without_spark):
    with pytest.raises(MissingDependency, match="Spark is not there after: false"):
        command._install("false")
    with pytest.raises(MissingDependency, match="Spark is not there after: true"):
        command._install("true")


def test_without_spark_and_a_way_to_get_it_the_demo_ends_with_the_check(cli, without_spark):
    done = cli("demo", *SMALL[:-1], "--json")
    assert (done.code, done.rows[0]["spark"]) == (0, None)


def test_the_demo_leaves_a_server_with_traffic_until_it_is_interrupted():
    command = [sys.executable, "-m", "strandline.cli", "demo", *SMALL, "--serve", "--port", "0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        race = json.loads(process.stdout.readline())
        served = json.loads(process.stdout.readline())
        assert race["check"]["problems"] == []
        head, newest, metrics = served["try"]
        first = json.loads(curl(head))["head"]
        deadline = time.monotonic() + 60
        while json.loads(curl(head))["head"] < first + 10 or "strandline_appends_total" not in curl(metrics):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        *events, end = map(json.loads, curl(newest).splitlines())
        assert [event["event"]["type"] for event in events] == ["StudentSubscribed"] * 3
        assert end["end"]["head"] >= first + 10
        process.send_signal(signal.SIGINT)
        assert (process.wait(30), process.stderr.read()) == (0, "")
    finally:
        process.kill()
        process.communicate()
    with strandline.connect(race["path"]) as store:
        term = [f"{name}-2" for name in COURSES]
        assert [course.sold_twice for course in sales_of(store, term)] == [0] * 6


def curl(command):
    return subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=30, check=True
    ).stdout


def test_a_port_that_is_taken_ends_the_demo_before_it_begins(cli):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = cli("demo", *SMALL, "--serve", "--port", str(port))
    assert (done.code, done.out) == (2, "")
    assert f"port {port}" in done.err
