from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
import school_models

import strandline
from places import Place
from strandline import Event, Projection, on
from strandline.follow import ReadModel
from strandline.follow.models.rebuilding import prepare_shadow

COURSE = "school_models:Course"
SLOW = """
import time
from pathlib import Path

class Slow(Projection):
    id: CourseId
    capacity: int = 0

    @on
    def defined(self, event: CourseDefined) -> None:
        Path("begun").touch()
        while not Path("go").exists():
            time.sleep(0.01)
        self.capacity = event.capacity

slow = ReadModel(Slow, table="courses")
"""


class OldCourse(Projection):
    id: school_models.CourseId
    name: str = ""

    @on
    def subscribed(self, event: school_models.StudentSubscribed) -> None:
        self.name += f"[red]{event.student}\x1b"


class Held(Projection):
    """Its handler waits."""

    id: school_models.CourseId
    events: int = 0
    begun = threading.Event()
    go_on = threading.Event()

    @on
    def defined(self, event: school_models.CourseDefined) -> None:
        self.begun.set()
        assert self.go_on.wait(20)
        self.events += 1


@pytest.fixture(params=["sqlite", "postgres18"])
def place(request, school) -> Place:
    """The school in a file, and in a database."""
    return Place(school) if request.param == "sqlite" else request.getfixturevalue("database")


@pytest.fixture
def table(place) -> str:
    return f"{place.log}_courses" if place.is_in_database else "courses"


def where(place):
    return (place.url, *(("--log", place.log) if place.is_in_database else ()))


def ran(done):
    assert (done.code, done.err) == (0, "")
    return done.rows


def test_list_and_show_tell_of_the_table(cli, place, table):
    assert ran(cli("models", "list", *where(place))) == []
    with place.connect() as store:
        model = ReadModel(school_models.Course, table=table)
        model.catch_up(store)
        store.append(Event("CourseDefined", {"capacity": 7}, tags=["course:c3"]))
    (listed,) = ran(cli("models", "list", *where(place)))
    expected = {"table": table, "state": "idle", "position": 5, "head": 6, "lag": 1, "rows": 2}
    assert {name: listed[name] for name in expected} == expected
    assert listed["rebuild"] is None
    (shown,) = ran(cli("models", "show", place.url, table, *where(place)[1:]))
    columns, newest = shown.pop("columns"), shown.pop("newest")
    assert shown == listed | {"lag_seconds": shown["lag_seconds"]}
    assert [(column["name"], column["type"]) for column in columns] == [
        ("id", "text"),
        ("capacity", "bigint"),
        ("students", "json" if place.is_in_database else "text"),
        ("position", "bigint"),
        ("exact_values", "text"),
    ]
    students = ["s1", "s2", "s3"] if place.is_in_database else '["s1","s2","s3"]'
    assert newest[0] == {
        "id": "c1", "capacity": 30, "students": students, "position": 5, "exact_values": None
    }  # fmt: skip
    assert [row["id"] for row in newest] == ["c1", "c2"]
    (one,) = ran(cli("models", "show", place.url, table, "--rows", 1, *where(place)[1:]))
    assert one["newest"] == newest[:1]


def test_a_rebuild_makes_the_table_anew_in_the_shape_of_the_code(cli, place, table):
    with place.connect() as store:
        ReadModel(OldCourse, table=table).catch_up(store)
    (rebuilt,) = ran(cli("models", "rebuild", COURSE, *where(place), "--table", table, "--batch", 2))
    assert (rebuilt["rows"], rebuilt["lag"], rebuilt["rebuild"]) == (2, 0, None)
    with place.connect() as store:
        model = ReadModel(school_models.Course, table=table)
        model.use(store)
        assert model.find(order_by="id") == [store.project(school_models.Course, key) for key in ("c1", "c2")]


def test_a_read_model_has_its_table_and_may_be_new(cli, school):
    (made,) = ran(cli("models", "rebuild", "school_models:courses", school))
    assert (made["table"], made["rows"]) == ("courses", 2)
    assert ran(cli("models", "rebuild", "school_models:courses", school, "--table", "courses")) == [made]


def test_a_rebuild_that_was_begun_is_told(cli, place, table):
    with place.connect() as store:
        live, shadow = (
            ReadModel(Held, table=table)._in(store, is_shadow=is_shadow) for is_shadow in (False, True)
        )
        tx = store.engine.transaction()
        tx.begin()
        prepare_shadow(live, shadow, tx)
        tx.commit()
        tx.end()
        (begun,) = ran(cli("models", "list", *where(place)))
        assert (begun["rows"], begun["position"]) == (None, 0)
        assert (begun["rebuild"]["state"], begun["rebuild"]["position"]) == ("idle", 0)
        Held.begun.clear()
        Held.go_on.clear()
        rebuilding = threading.Thread(target=ReadModel(Held, table=table).rebuild, args=(store,))
        rebuilding.start()
        try:
            assert Held.begun.wait(20)
            (running,) = ran(cli("models", "list", *where(place)))
            assert running["rebuild"]["state"] == "running"
        finally:
            Held.go_on.set()
            rebuilding.join()
    (done,) = ran(cli("models", "list", *where(place)))
    assert (done["rows"], done["rebuild"]) == (2, None)


def test_an_interrupted_rebuild_serves_the_old_table_and_goes_on_later(terminal, cli, school, model):
    Path("slow.py").write_text(Path(school_models.__file__).read_text() + SLOW)
    screen = terminal("models", "rebuild", "slow:slow", school, NO_COLOR="1")
    screen.wait_for("rebuilding courses")
    while not Path("begun").exists():
        time.sleep(0.01)
    (during,) = ran(cli("models", "list", school))
    screen.interrupt()
    ended = screen.finish()
    assert ended.code == 130
    assert "Traceback" not in ended.out
    assert (during["rows"], during["rebuild"]["state"]) == (2, "running")
    stopped = terminal("models", "list", school, NO_COLOR="1").finish().out
    assert "stopped, at 0 of 5" in stopped
    Path("go").touch()
    done = terminal("models", "rebuild", "slow:slow", school, NO_COLOR="1").finish()
    assert done.code == 0
    (rebuilt,) = ran(cli("models", "show", school, "courses"))
    assert [column["name"] for column in rebuilt["columns"]][:3] == ["id", "capacity", "position"]


def test_what_cannot_be_rebuilt_is_told_and_nothing_is_made(cli, school):
    for name, message in {
        "school_models": "names no read model",
        "nowhere:courses": "there is no module 'nowhere' here",
        "school_models:missing": "has no 'missing'",
        "school_models:CourseId": "is no read model",
        "school_models:Course": "is no read model",
    }.items():
        done = cli("models", "rebuild", name, school)
        assert (done.code, done.out) == (2, "")
        assert message in done.err
        assert "--table courses" in done.err
    other = cli("models", "rebuild", "school_models:courses", school, "--table", "other")
    assert "is in the table 'courses', not 'other'" in other.err
    bad = cli("models", "rebuild", COURSE, school, "--table", "x; drop table event")
    assert "cannot be the name of a table" in bad.err
    assert ran(cli("models", "list", school)) == []


def test_a_table_of_somebody_else_is_left_alone(cli, school):
    with strandline.connect(school) as store:
        tx = store.engine.transaction()
        tx.begin()
        tx.execute("create table courses (id text)")
        tx.commit()
        tx.end()
    done = cli("models", "rebuild", "school_models:courses", school)
    assert (done.code, done.out) == (2, "")
    assert "there is a table 'courses' already" in done.err


def test_a_read_model_that_is_not_there_is_told(cli, school, model, monkeypatch):
    done = cli("models", "show", school, "nobody")
    assert (done.code, done.out) == (2, "")
    assert "has no read model 'nobody'" in done.err
    for words in ((), (school,)):
        assert "no table was named" in cli("models", "show", *words).err
    monkeypatch.setenv("STRANDLINE_URL", school)
    assert ran(cli("models", "show", "courses"))[0]["table"] == "courses"


def test_followers_that_only_sound_like_one_are_none(cli, school):
    with strandline.connect(school) as store:
        store.follower("model:courses").catch_up(lambda events, tx: None)
    assert ran(cli("models", "list", school)) == []


def test_a_table_that_somebody_removed_is_told(cli, terminal, school, model):
    with strandline.connect(school) as store:
        tx = store.engine.transaction()
        tx.begin()
        tx.execute("drop table courses")
        tx.commit()
        tx.end()
    (shown,) = ran(cli("models", "show", school, "courses"))
    assert (shown["rows"], shown["columns"], shown["newest"]) == (None, [], [])
    (listed,) = ran(cli("models", "list", school))
    assert listed["state"] == "failed"
    assert "its table is gone" in listed["error"]
    assert "strandline models rebuild" in listed["error"]
    assert "no table" in terminal("models", "list", school, NO_COLOR="1").finish().out
    assert ran(cli("models", "rebuild", "school_models:courses", school))[0]["rows"] == 2


def test_people_see_tables_of_plain_text(terminal, school, application, model):
    listed = terminal("models", "list", school, NO_COLOR="1").finish().out
    assert listed.split()[:6] == ["table", "state", "position", "lag", "behind", "rows"]
    assert "courses" in listed
    with strandline.connect(school) as store:
        ReadModel(OldCourse, table="old").catch_up(store)
    shown = terminal("models", "show", school, "old", NO_COLOR="1", columns=200).finish().out
    assert "id text, name text, position bigint, exact_values text" in shown
    assert r"[red]s1\x1b[red]s2\x1b[red]s3\x1b" in shown
    assert "\x1b" not in shown
    assert shown.splitlines()[-3].split() == ["id", "name", "position"]
    done = terminal("models", "rebuild", "school:courses", school, NO_COLOR="1").finish()
    assert (done.code, "rebuilding courses" in done.out) == (0, True)


def test_no_read_models_are_told(terminal, school):
    assert "this log has no read models" in terminal("models", "list", school, NO_COLOR="1").finish().out
