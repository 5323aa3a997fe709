from __future__ import annotations

import os

import pytest
import school_models

import strandline
from strandline import Query, QueryItem

pytestmark = pytest.mark.usefixtures("application")


def ran(done):
    assert (done.code, done.err) == (0, "")
    return done.rows


def test_list_and_show_have_the_status(cli, school):
    with strandline.connect(school) as store:
        store.follower("all", lease=5).catch_up(lambda events, tx: None)
    every = ran(cli("followers", "list", school))
    assert [(row["name"], row["state"], row["position"], row["dead_letters"]) for row in every] == [
        ("all", "idle", 5, 0),
        ("balances", "idle", 5, 2),
    ]
    (one,) = ran(cli("followers", "show", school, "balances"))
    assert one == every[1] | {"query": {"items": [{"types": ["CourseDefined"]}]}}


def test_pause_resume_and_reset_are_kept(cli, school):
    assert ran(cli("followers", "pause", school, "balances"))[0]["state"] == "paused"
    assert ran(cli("followers", "list", school))[0]["state"] == "paused"
    assert ran(cli("followers", "resume", school, "balances"))[0]["state"] == "idle"
    (row,) = ran(cli("followers", "reset", school, "balances", "--position", 1))
    assert (row["position"], row["lag"]) == (1, 4)
    assert ran(cli("followers", "reset", school, "balances", "--time", "2200-01-01"))[0]["position"] == 5
    assert ran(cli("followers", "reset", school, "balances", "--time", "2000-01-01T00:00Z"))[0]["lag"] == 5
    seen = []
    with strandline.connect(school) as store:
        follower = store.follower("balances", Query.types("CourseDefined"))  # the query is still its own
        follower.catch_up(lambda events, tx: seen.extend(event.position for event in events))
    assert seen == [1, 2]


def test_a_query_with_a_function_stays_unknown(cli, school):
    query = Query.of(QueryItem(types=["CourseDefined"], where=lambda data: True))
    with strandline.connect(school) as store:
        store.follower("odd", query).catch_up(lambda events, tx: None)
    assert ran(cli("followers", "show", school, "odd"))[0]["query"] is None
    ran(cli("followers", "reset", school, "odd", "--position", 0))
    with strandline.connect(school) as store:
        assert store.follower("odd", query).catch_up(lambda events, tx: None) == 5


def test_the_follower_of_a_read_model_stays_that_of_its_projection(cli, school, model):
    shown = ran(cli("followers", "show", school, f"model:{model}"))[0]
    assert shown["query"] == {"items": [{"types": ["$retagged", "CourseDefined", "StudentSubscribed"]}]}
    assert ran(cli("followers", "reset", school, f"model:{model}", "--position", 2))[0]["lag"] == 3
    with strandline.connect(school) as store:
        assert school_models.courses.catch_up(store) == 5
        assert len(school_models.courses.get("c1").students) == 3


def test_dead_letters_are_shown_and_discarded(cli, school):
    first, second = ran(cli("followers", "dead-letters", school, "balances"))
    assert (first["position"], second["position"], first["attempts"]) == (1, 2, 1)
    assert first["error"] == "ValueError: [red]no such\x1b[31m account"
    assert "Traceback" in first["traceback"]
    assert ran(cli("followers", "dead-letters", school, "balances", "--position", 2)) == [second]
    assert ran(cli("followers", "discard", school, "balances", "--position", 1))[0]["dead_letters"] == 1
    again = cli("followers", "discard", school, "balances", "--position", 1)
    assert (again.code, again.out) == (2, "")
    assert "has no dead letter at 1" in again.err


def test_a_replay_calls_the_handler_of_the_application(process, school):
    done = process("followers", "replay", school, "balances", "--position", "2", "--app", "school:app")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[0] == "handled 2"
    assert '"dead_letters":1' in done.out.splitlines()[1]


def test_a_replay_needs_the_application(cli, process, school, tmp_path):
    replay = ("followers", "replay", school, "balances", "--position", "2")
    done = cli(*replay)
    assert done.code == 2
    assert "--app module:function" in done.err
    (tmp_path / "odd.py").write_text(
        "from strandline.follow import Worker\n"
        "def other(store): return Worker(store.follower('other'), print)\n"
        "def wrong(store): return [1]\n"
        "def twice(store): return [other(store), other(store)]\n"
    )
    (tmp_path / "lacking.py").write_text("import not_installed\n")
    for name, message in {
        "odd": "names no application",
        "missing:app": "there is no module 'missing' here",
        "odd:missing": "has no 'missing'",
        "odd:wrong": "which is no worker",
        "odd:twice": "two of one name",
        "odd:other": "has no worker 'balances'",
    }.items():
        done = process(*replay, "--app", name)
        assert done.code == 2
        assert message in done.err
        assert "Traceback" not in done.err
    assert "No module named 'not_installed'" in process(*replay, "--app", "lacking:app").err
    assert cli("followers", "list", school).rows[0]["dead_letters"] == 2


@pytest.mark.parametrize("command", ["show", "pause", "resume", "dead-letters"])
def test_a_follower_that_is_not_there_is_told_and_not_made(cli, school, command):
    done = cli("followers", command, school, "nobody")
    assert (done.code, done.out) == (2, "")
    assert "has no follower 'nobody'" in done.err
    assert len(cli("followers", "list", school).rows) == 1


def test_a_name_that_is_no_text_is_one_clear_line(cli, school):
    done = cli("followers", "show", school, os.fsdecode(b"b\xff"))
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: a follower")


def test_wrong_arguments_are_told(cli, school, monkeypatch):
    for words in ((), (school,)):
        assert "no follower was named" in cli("followers", "show", *words).err
    assert "give either" in cli("followers", "reset", school, "balances").err
    both = cli("followers", "reset", school, "balances", "--position", 1, "--time", "2026-01-01")
    assert "give either" in both.err
    assert "--time" in cli("followers", "reset", school, "balances", "--time", "noon").err
    assert "head of this log is 5" in cli("followers", "reset", school, "balances", "--position", 9).err
    monkeypatch.setenv("STRANDLINE_URL", school)
    assert ran(cli("followers", "show", "balances"))[0]["name"] == "balances"
    assert ran(cli("followers", "list"))[0]["name"] == "balances"


def test_people_see_tables_of_plain_text(terminal, school):
    screen = terminal("followers", "list", school, NO_COLOR="1").finish().out
    assert screen.split()[:4] == ["follower", "state", "position", "lag"]
    assert "balances" in screen
    letters = terminal("followers", "dead-letters", school, "balances", NO_COLOR="1").finish().out
    assert r"[red]no such\x1b[31m account" in letters
    one = (
        terminal("followers", "dead-letters", school, "balances", "--position", "1", NO_COLOR="1")
        .finish()
        .out
    )
    assert "Traceback" in one
    assert "\x1b" not in one
    assert "CourseDefined" in terminal("followers", "show", school, "balances", NO_COLOR="1").finish().out


def test_on_postgresql_too(cli, database):
    with database.connect() as store:
        store.follower("balances").catch_up(lambda events, tx: None)
    arguments = (database.url, "balances", "--log", database.log)
    assert ran(cli("followers", "pause", *arguments))[0]["state"] == "paused"
    assert ran(cli("followers", "reset", *arguments, "--position", 2))[0]["lag"] == 3
