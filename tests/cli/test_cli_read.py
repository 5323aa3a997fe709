from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

import strandline
from strandline import Event, InvalidInput

ITEMS = '{"items": [{"tags": ["student:s1"]}, {"tags": ["course:c2"]}]}'


def positions(ran):
    assert ran.code == 0, ran.err
    return [row["position"] for row in ran.rows]


def test_piped_events_are_exactly_the_lines_of_read_ndjson(cli, school):
    with strandline.connect(school) as store:
        lines = b"".join(store.read().ndjson()).decode()
    done = cli("read", school)
    assert (done.code, done.out, done.err) == (0, lines, "")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], [1, 2, 3, 4, 5]),
        (["--type", "CourseDefined"], [1, 2]),
        (["--type", "CourseDefined", "--type", "StudentSubscribed"], [1, 2, 3, 4, 5]),
        (["--tag", "course:c1"], [1, 3, 4, 5]),
        (["--tag", "course:c1", "--tag", "student:s2"], [4]),
        (["--exclude-type", "CourseDefined"], [3, 4, 5]),
        (["--stream", "subscriptions"], [3, 4, 5]),
        (["--subject", "s3"], [5]),
        (["--where", '{"capacity": {"$gte": 10}}'], [1]),
        (["--query", ITEMS], [2, 3]),
        (["--query", ITEMS, "--type", "CourseDefined"], [2]),
        (["--after", "2"], [3, 4, 5]),
        (["--until", "2"], [1, 2]),
        (["--after", "1", "--until", "4", "--backwards"], [4, 3, 2]),
        (["--limit", "2"], [1, 2]),
        (["--backwards", "--limit", "2"], [5, 4]),
        (["--type", "Nothing"], []),
        (["--after", "99"], []),
    ],
)
def test_options_narrow_the_query(cli, school, options, expected):
    assert positions(cli("read", school, *options)) == expected


def test_the_store_comes_from_the_environment(cli, school, monkeypatch):
    monkeypatch.setenv("STRANDLINE_URL", school)
    assert positions(cli("read")) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("command", ["read", "tail", "head", "stats", "check", "migrate"])
def test_commands_that_read_never_create_a_store(cli, command):
    done = cli(command, "missing.db")
    assert (done.code, done.out) == (2, "")
    assert "missing.db" in done.err
    assert "hint: " in done.err
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("command", ["read", "append", "tail", "head", "stats", "check", "backup", "migrate"])
def test_a_command_without_a_store_says_how_to_name_one(cli, command):
    done = cli(command)
    assert (done.code, done.out) == (2, "")
    assert "error: " in done.err
    assert "hint: " in done.err


@pytest.mark.parametrize(
    "options",
    [
        ["--where", "{"],
        ["--where", "[]"],
        ["--where", '{"a": {"$like": 1}}'],
        ["--query", "{"],
        ["--query", '{"items": []}'],
        ["--after", "-1"],
        ["--limit", "0"],
        ["--type", "A", "--exclude-type", "A"],
        ["--limit", "many"],
        ["--nonsense"],
    ],
)
def test_bad_options_exit_with_2_and_a_clear_line(cli, school, options):
    done = cli("read", school, *options)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert "Traceback" not in done.err


@pytest.mark.parametrize("command", [["read"], ["tail", "--no-follow"]])
@pytest.mark.parametrize("levels", [100, 900, 950, 10_000])
def test_a_where_that_is_nested_too_deeply_is_one_clear_line(cli, school, command, levels):
    done = cli(*command, school, "--where", '{"a":' * levels + "1" + "}" * levels)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")


NOT_UTF_8 = os.fsdecode(b"b\xff")


@pytest.mark.parametrize(
    "command",
    [
        *(["append", f"{NOT_UTF_8}.db", "A"], ["read", f"{NOT_UTF_8}.db"], ["head", f"{NOT_UTF_8}.db"]),
        *(["check", f"{NOT_UTF_8}.db"], ["backup", "school.db", f"{NOT_UTF_8}.db"]),
        *(["migrate", f"{NOT_UTF_8}.db"], ["demo", "--path", f"{NOT_UTF_8}.db"]),
        *(["followers", "list", f"{NOT_UTF_8}.db"], ["models", "list", f"{NOT_UTF_8}.db"]),
    ],
    ids=lambda command: command[0],
)
def test_a_file_whose_name_is_not_utf_8_is_refused_and_not_made(cli, school, command):
    for options in ([], ["--json"]):
        done = cli(*command, *options)
        assert done.code == 2
        assert "UTF-8" in done.err
    assert not any(name.startswith(NOT_UTF_8) for name in os.listdir())
    with pytest.raises(InvalidInput, match="UTF-8"):
        strandline.connect(f"{NOT_UTF_8}.db")


def test_usage_errors_are_json_too_if_asked_for(cli, school):
    done = cli("read", school, "--nonsense", "--json")
    assert done.code == 2
    told = json.loads(done.err)
    assert told["code"] == "usage"
    assert "--nonsense" in told["message"]
    assert told["hint"] == "run: strandline read --help"


def test_a_file_that_is_no_store_is_refused(cli):
    Path("notes.db").write_text("not a database, but long enough to look at it\n" * 50)
    done = cli("read", "notes.db")
    assert (done.code, done.out) == (2, "")
    assert "not a Strandline store" in done.err


def test_a_folder_is_refused(cli, tmp_path):
    done = cli("read", tmp_path)
    assert done.code == 2
    assert "is a folder" in done.err


def test_a_reader_that_goes_away_ends_the_command_quietly(command, school):
    with strandline.connect(school) as store:
        store.append([Event("Filler", {"text": "x" * 200}) for _ in range(5_000)])
    done = subprocess.run(
        ["bash", "-c", '"$@" | head -n 1; echo "${PIPESTATUS[0]}"', "bash", *command, "read", school],
        capture_output=True,
        check=True,
    )
    first, code = done.stdout.decode().splitlines()
    assert json.loads(first)["position"] == 1
    assert (code, done.stderr) == ("0", b"")


def test_a_large_log_is_read_to_the_end(cli, school):
    with strandline.connect(school) as store:
        store.append([Event("Filler", number) for number in range(5_000)])
    assert positions(cli("read", school, "--type", "Filler")) == list(range(6, 5_006))


@pytest.mark.parametrize("command", ["head", "read", "stats", "check", "tail"])
def test_a_command_that_reads_leaves_an_empty_file_empty(cli, command, tmp_path):
    (tmp_path / "empty.db").touch()
    done = cli(command, str(tmp_path / "empty.db"))
    assert done.code == 2
    assert "no store" in done.err
    assert (tmp_path / "empty.db").stat().st_size == 0


@pytest.mark.parametrize("command", ["head", "read", "stats", "tail"])
def test_a_log_in_memory_is_refused_because_nothing_can_be_in_it(cli, command):
    done = cli(command, "memory:")
    assert done.code == 2
    assert "name a file" in done.err
