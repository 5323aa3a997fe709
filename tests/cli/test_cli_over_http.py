"""The command line on a log that a server keeps."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

import strandline
from served import ServedLogs
from strandline import Event, EventStore, Query
from strandline.server.tokens import Tokens, create_token


@pytest.fixture
def store(school) -> Iterator[EventStore]:
    """The store of the server."""
    with strandline.connect(school) as store:
        yield store


@pytest.fixture
def log(served: ServedLogs, store: EventStore) -> tuple[str, ...]:
    """The arguments that name the log."""
    place = served.serve(store)
    return (str(place.url), "--log", str(place.log))


def test_events_are_read_as_they_are_from_the_file(cli, log, school):
    assert cli("read", *log).out == cli("read", school).out
    asked = ("--tag", "course:c1", "--type", "StudentSubscribed", "--backwards", "--limit", 2)
    assert cli("read", *log, *asked).out == cli("read", school, *asked).out
    assert cli("tail", *log, "--no-follow").out == cli("tail", school, "--no-follow").out
    assert cli("head", *log).rows == [{"head": 5}]


def test_an_event_is_appended(cli, log, store):
    url, *named = log
    done = cli("append", url, "CourseClosed", '{"course": "c1"}', "--tag", "course:c1", *named)
    assert (done.code, done.rows[0]["position"]) == (0, 6)
    stale = ("--fail-if-tag", "course:c1", "--after", 2)
    refused = cli("append", url, "CourseClosed", "{}", *stale, *named, "--json")
    assert (refused.code, json.loads(refused.err)["code"]) == (1, "append_condition_failed")
    assert store.head() == 6


def test_lines_are_appended(cli, log, store, tmp_path, school):
    (tmp_path / "lines").write_text(cli("read", school).out.replace("s1", "s9").replace('"id"', '"id"'))
    url, *named = log
    lines = [json.loads(line) | {"id": None} for line in (tmp_path / "lines").read_text().splitlines()]
    (tmp_path / "lines").write_text("\n".join(map(json.dumps, lines)))
    done = cli("append", url, "--ndjson", tmp_path / "lines", *named)
    assert done.code == 0, done.err
    assert store.head() == 10


def test_figures_and_the_doctor_work(cli, log, store):
    figures = cli("stats", *log).rows[0]
    assert (figures["head"], figures["log"]) == (5, str(store.stats().log))
    findings = {row["name"]: row for row in cli("doctor", *log).rows}
    assert findings["store"]["state"] == "ok"
    assert "head 5" in findings["store"]["found"]


def test_new_events_show_up_as_they_are_written(process, log, store, command):
    tail = subprocess.Popen(
        [*command, "tail", *log, "--after", "5", "--tag", "late"], stdout=subprocess.PIPE, text=True
    )
    try:
        for number in range(3):
            store.append(Event("A", {"n": number}, tags=["late"]))
        assert tail.stdout is not None
        assert [json.loads(tail.stdout.readline())["data"]["n"] for _ in range(3)] == [0, 1, 2]
    finally:
        tail.kill()
        tail.communicate(timeout=60)


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "URL"],
        ["backup", "URL", "copy.db"],
        ["backup", "URL"],
        ["migrate", "URL"],
        ["serve", "URL"],
        ["demo", "--path", "URL"],
    ],
)
def test_what_needs_the_file_says_where_to_do_it(cli, log, arguments, tmp_path):
    before = sorted(tmp_path.iterdir())
    named = [] if arguments[0] == "serve" else log[1:]
    done = cli(*(log[0] if each == "URL" else each for each in arguments), *named, "--json")
    assert done.code == 2
    failure = json.loads(done.err)
    assert "not through a server" in failure["message"]
    assert "where the server runs" in failure["hint"]
    assert sorted(tmp_path.iterdir()) == before


def test_the_token_comes_from_the_environment(cli, served, store, tmp_path, monkeypatch):
    _, secret = create_token(str(tmp_path / "tokens.json"), ["read", "metadata"])
    place = served.serve(store, tokens=Tokens(tmp_path / "tokens.json"))
    log = (str(place.url), "--log", str(place.log))
    for wrong in ("", "slt_wrong", "slt_w r\nong"):
        monkeypatch.setenv("STRANDLINE_TOKEN", wrong)
        done = cli("head", *log)
        assert done.code == 2
        assert not wrong or wrong not in done.err
    monkeypatch.setenv("STRANDLINE_TOKEN", secret)
    assert cli("head", *log).rows == [{"head": 5}]
    refused = cli("append", str(place.url), "A", "{}", *log[1:], "--json")
    assert (refused.code, json.loads(refused.err)["code"]) == (2, "forbidden")
    assert secret not in refused.err
    assert store.count(Query.types("A")) == 0


def test_a_token_in_the_environment_does_not_disturb_a_file(cli, school, monkeypatch):
    monkeypatch.setenv("STRANDLINE_TOKEN", "slt_secret")
    assert cli("head", school).rows == [{"head": 5}]


def test_no_secret_of_a_url_is_repeated(cli):
    for url in ("http://slt_secret@127.0.0.1:9", "http://127.0.0.1:9?token=slt_secret", "http:slt_secret"):
        for arguments in (["head", url], ["head", "school.db", url], ["backup", url]):
            done = cli(*arguments)
            assert done.code == 2
            assert "slt_secret" not in done.err + done.out, arguments


def test_nobody_there_is_said_at_once(cli):
    done = cli("head", "http://127.0.0.1:9", "--json")
    assert (done.code, json.loads(done.err)["code"]) == (2, "unavailable")
    assert "strandline serve" in json.loads(done.err)["hint"]
