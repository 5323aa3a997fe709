"""What can be wrong with a URL, a server or a schema: one clear line each, with the fix, and never the password."""

from __future__ import annotations

import io
import logging
import os
import pickle
import random
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import psycopg
import pytest

import strandline
from places import Place
from strandline import (
    AppendCondition,
    Event,
    InvalidInput,
    NotFound,
    Query,
    SchemaMismatch,
    StrandlineError,
    Unauthorized,
    Unavailable,
    names,
)
from strandline.engine.maintenance import backup_log, check_log, migrate_log, schema_script
from strandline.engine.open import Place as Where
from strandline.engine.open import place_of, without_password
from strandline.engine.postgres import schema
from strandline.engine.postgres.address import Address
from strandline.engine.postgres.attempt import Pauses
from strandline.testing.postgres import PostgresServer

SECRET = "Tr0ub4dor&3"
PART = "Tr0ub4dor"
"""What no message may hold of the password, however a URL is misread."""


@pytest.fixture(scope="module")
def server(postgres_server: Callable[[str], PostgresServer]) -> PostgresServer:
    return postgres_server("postgres18")


@pytest.fixture
def place(server: PostgresServer) -> Place:
    return Place(server.url(), f"t{uuid4().hex[:12]}")


def told(error: BaseException) -> str:
    """Everything that an error says, to whoever looks, with all that led to it."""
    said = io.StringIO()
    seen: BaseException | None = error
    while seen is not None:  # also what `from None` only hides
        print(repr(seen), str(seen), vars(seen), file=said)
        seen = seen.__cause__ or seen.__context__
    traceback.print_exception(error, file=said)
    return said.getvalue() + repr(pickle.loads(pickle.dumps(error)))


def refusal(attempt: Callable[..., object], *arguments: object, **options: object) -> StrandlineError:
    with pytest.raises(StrandlineError) as caught:
        attempt(*arguments, **options)
    return caught.value


UNUSED = 1  # a port where nobody listens
BAD_URLS = {
    "a bad percent encoding": f"postgresql://app:{PART}%zz@127.0.0.1/db",
    "an encoded zero": f"postgresql://app:{PART}%00@127.0.0.1/db",
    "a zero": f"postgresql://app:{PART}\0@127.0.0.1/db",
    "a lone surrogate": f"postgresql://app:{PART}\udc80@127.0.0.1/db",
    "an @ in the password": f"postgresql://app:x@{PART}@127.0.0.1/db",
    "a / in the password": f"postgresql://app:x/{PART}@127.0.0.1/db",
    "a / after digits in the password": f"postgresql://app:12/{PART}@127.0.0.1/db",
    "a / and a ? in the password": f"postgresql://app:1/2?{PART}@127.0.0.1/db",
    "a / and a setting in the password": f"postgresql://app:1/2?user={PART}&x@127.0.0.1/db",
    "a port that is no number": f"postgresql://app:{SECRET}@127.0.0.1:https/db",
    "a port that is too large": f"postgresql://app:{SECRET}@127.0.0.1:99999/db",
    "a port that is much too large": f"postgresql://app:{SECRET}@127.0.0.1:{'9' * 5000}/db",
    "a negative port": f"postgresql://app:{SECRET}@127.0.0.1:-1/db",
    "port 0": f"postgresql://app:{SECRET}@127.0.0.1:0/db",
    "an unfinished IPv6 address": f"postgresql://app:{SECRET}@[::1/db",
    "an unknown setting": f"postgresql://app:{SECRET}@127.0.0.1/db?sslmodus=require",
    "a setting without a value": f"postgresql://app@127.0.0.1/db?password={PART}&sslmode",
    "a bad sslmode": f"postgresql://app:{SECRET}@127.0.0.1/db?sslmode=perhaps",
    "a bad timeout": f"postgresql://app:{SECRET}@127.0.0.1/db?connect_timeout=soon",
    "a bad number": f"postgresql://app:{SECRET}@127.0.0.1/db?keepalives_idle=long",
    "a service that nobody defined": f"postgresql://app:{SECRET}@/db?service=nowhere",
    "one slash": f"postgresql:/app:{SECRET}@127.0.0.1/db",
    "no colon": f"postgresql//app:{SECRET}@127.0.0.1/db",
    "no slash": f"postgres:app:{SECRET}@127.0.0.1/db",
    "another driver's": f"postgresql+psycopg://app:{SECRET}@127.0.0.1/db",
    "upper case": f"POSTGRESQL://app:{SECRET}@127.0.0.1/db",
    "a blank before it": f" postgresql://app:{SECRET}@127.0.0.1/db",
    "libpq's other form": f"host=127.0.0.1 password={SECRET}",
    "libpq's other form, password first": f"password = {SECRET} host=127.0.0.1",
}


@pytest.mark.parametrize("url", [pytest.param(url, id=name) for name, url in BAD_URLS.items()])
def test_a_bad_url_is_refused_in_one_line_with_a_hint_and_without_its_password(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for attempt in (strandline.connect, check_log, migrate_log):
        error = refusal(attempt, url)
        assert isinstance(error, InvalidInput)
        assert error.hint
        assert "\n" not in str(error) + error.hint
        assert PART not in told(error)
    assert PART not in told(refusal(backup_log, url, "copy"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("rest", "told"),
    [
        ("@127.0.0.1:99999/db", "a port is a number"),
        ("@127.0.0.1:0/db", "a port is a number"),
        ("@127.0.0.1:5432,h:-1/db", "a port is a number"),
        ("@127.0.0.1/db?nope=1", "after the ?"),
        ("@127.0.0.1/db?sslmode", "after the ?"),
        ("x@y@127.0.0.1/db", "not the URL"),
        ("@127.0.0.1:https/db", "not the URL"),
    ],
)
def test_what_is_wrong_with_a_url_is_told_apart(rest: str, told: str) -> None:
    error = refusal(strandline.connect, f"postgresql://app:{quote(SECRET)}{rest}")
    assert told in str(error)
    assert ("%40" in error.hint) == (told == "not the URL")


UNREACHABLE = {
    "nobody listens": f"postgresql://app:{SECRET}@127.0.0.1:{UNUSED}/db",
    "several hosts, and nobody listens": f"postgresql://app:{SECRET}@127.0.0.1:{UNUSED},localhost:{UNUSED}/db",
    "a name that is none": f"postgresql://app:{SECRET}@nowhere.invalid/db",
    "a socket that is not there": f"postgresql://app:{SECRET}@%2Fno%2Fsuch%2Ffolder/db",
    "the password as a setting": f"postgresql://127.0.0.1:{UNUSED}/db?user=app&password={quote(SECRET)}",
}


@pytest.mark.parametrize("url", [pytest.param(url, id=name) for name, url in UNREACHABLE.items()])
def test_a_server_that_cannot_be_reached_is_unavailable_at_once(url: str) -> None:
    for attempt in (strandline.connect, check_log, migrate_log):
        error = refusal(attempt, url)
        assert isinstance(error, Unavailable)
        assert (error.written, error.retry) == (False, "same")
        assert "does not answer" in str(error)
        assert "check that the server runs" in error.hint
        assert "\n" not in str(error) + error.hint
        assert PART not in told(error)


def test_a_backup_is_a_file(tmp_path: Path) -> None:
    strandline.connect(tmp_path / "school.db").close()
    for target in ("memory:", f"postgresql://app:{SECRET}@127.0.0.1/db"):
        error = refusal(backup_log, tmp_path / "school.db", target)
        assert isinstance(error, InvalidInput)
        assert PART not in told(error)
    backup_log(tmp_path / "school.db", f"sqlite:///{tmp_path}/copy.db")
    assert check_log(tmp_path / "copy.db").problems == []


def test_the_drivers_own_log_does_not_tell_the_password(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for url in (*UNREACHABLE.values(), *BAD_URLS.values()):
        refusal(strandline.connect, url)
    assert PART not in caplog.text


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"postgresql://app:{SECRET}@h:5/db?sslmode=require", "postgresql://app@h:5/db?sslmode=require"),
        (f"postgres://app:{SECRET}?/@h/db", "postgres://…"),
        (f"postgresql://:{SECRET}@h/db", "postgresql://h/db"),
        (f"postgresql://app@h/db?password={SECRET}", "postgresql://app@h/db?3"),
        (f"postgresql://h/db?sslpassword=x{PART}&user=a%40b", "postgresql://h/db?user=a%40b"),
        (f"postgresql:///db?pass%77ord={PART}", "postgresql:///db"),
        (f"postgresql://app:x@{PART}@h/db", "postgresql://…"),
        (f"postgresql://app:1/{PART}@h/db", "postgresql://…"),
        ("postgresql://app@h,i:6/db", "postgresql://app@h,i:6/db"),
        ("school.db", "school.db"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert without_password(url) == shown
    assert PART not in repr(Where("postgres", url))


def test_nothing_that_is_open_shows_the_password(server: PostgresServer) -> None:
    url = server.url(password=SECRET)
    assert PART in url
    with strandline.connect(url) as store:
        engine = store.engine
        shown = [repr(each) for each in (store, engine, engine._address, engine._readers, place_of(url))]
        assert PART not in "".join(shown) + str(engine._address)


def test_a_server_that_goes_away_does_not_take_the_password_along(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pauses.__init__, "__defaults__", (0.1,))
    with PostgresServer.start(version=18) as server:
        url = server.url(password=SECRET)
        with strandline.connect(url) as store:
            store.append(Event("A", {}))
            with psycopg.connect(url) as cutter:
                cutter.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'strandline'"
                )
            server.stop()
            for attempt in (store.head, store.read, lambda: store.append(Event("B", {}))):
                error = refusal(attempt)
                assert isinstance(error, Unavailable)
                assert PART not in told(error)
            server.start_again()
            assert store.append(Event("B", {})).position == 2


@pytest.fixture(scope="module")
def guarded(server: PostgresServer) -> Iterator[str]:
    """A role that needs its password; everybody else is trusted."""
    role = f"guarded_{uuid4().hex[:8]}"
    rules = server.data / "pg_hba.conf"
    before = rules.read_text()
    server.run(f"create role {role} login superuser password '{SECRET}'")
    rules.write_text(f"host all {role} 127.0.0.1/32 scram-sha-256\n{before}")
    server.run("select pg_reload_conf()")
    yield role
    rules.write_text(before)
    server.run("select pg_reload_conf()")


@pytest.fixture
def _no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.usefixtures("_no_settings")
def test_a_wrong_or_missing_password_is_unauthorized(server: PostgresServer, guarded: str) -> None:
    wrong = server.url(user=guarded, password=f"not {SECRET}")
    for url, said in ((wrong, "password authentication failed"), (server.url(user=guarded), "no password")):
        error = refusal(strandline.connect, url)
        assert isinstance(error, Unauthorized)
        assert said in str(error)
        assert "$PGPASSWORD" in error.hint
        assert PART not in told(error)


def test_an_unknown_role_and_one_that_may_not_log_in_are_unauthorized(server: PostgresServer) -> None:
    server.run("create role sleeper")
    for user in ("nobody-knows", "sleeper"):
        error = refusal(strandline.connect, server.url(user=user, password=SECRET))
        assert isinstance(error, Unauthorized)
        assert PART not in told(error)
    server.run("drop role sleeper")


@pytest.mark.usefixtures("_no_settings")
def test_the_password_may_come_from_wherever_libpq_finds_it(
    server: PostgresServer, guarded: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, log = server.url(user=guarded), f"t{uuid4().hex[:12]}"
    strandline.connect(server.url(user=guarded, password=SECRET), log=log).close()
    service = tmp_path / "services.conf"
    service.write_text(
        f"[school]\nhost=127.0.0.1\nport={server.port}\ndbname=postgres\nuser={guarded}\npassword={SECRET}\n"
    )
    pgpass = tmp_path / ".pgpass"
    pgpass.write_text(f"127.0.0.1:{server.port}:*:{guarded}:{SECRET}\n")
    pgpass.chmod(0o600)
    places = {
        "PGPASSWORD": (url, SECRET),
        "PGPASSFILE": (url, str(pgpass)),
        "PGSERVICEFILE": ("postgresql://?service=school", str(service)),
    }
    for name, (named, value) in places.items():
        with monkeypatch.context() as patch:
            patch.setenv("PGPASSFILE", "/dev/null")
            patch.setenv(name, value)
            with strandline.connect(named, log=log, create=False) as store:
                store.append(Event("A", {}))
            assert check_log(named, log=log).problems == []
    with strandline.connect(url, log=log) as store:  # ~/.pgpass
        assert store.head() == 3
    monkeypatch.setenv("PGSERVICEFILE", str(service))
    monkeypatch.setenv("PGSERVICE", "school")
    with strandline.connect("postgresql://", log=log) as store:
        assert store.head() == 3


@pytest.mark.usefixtures("_no_settings")
def test_settings_of_the_environment_are_not_overridden(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def applications() -> set[str]:
        with place.connect() as store, psycopg.connect(str(place.url)) as connection:
            assert store.head() == 0
            asked = "select distinct application_name from pg_stat_activity where query like %s"
            return {name for (name,) in connection.execute(asked, [f"%{place.log}%"])}

    assert "strandline" in applications()
    monkeypatch.setenv("PGAPPNAME", "school")
    assert "school" in applications()


def test_a_missing_database_comes_with_its_createdb(server: PostgresServer) -> None:
    for name in ("nowhere", "no where"):
        error = refusal(strandline.connect, server.url(name, password=SECRET))
        assert isinstance(error, NotFound)
        assert f"no database {name} at" in str(error)
        assert error.hint in {"create it: createdb nowhere", "create it: createdb 'no where'"}
        assert PART not in told(error)


def test_a_database_of_another_encoding_is_refused(server: PostgresServer) -> None:
    server.run("create database latin encoding 'LATIN1' template template0")
    error = refusal(strandline.connect, server.url("latin"))
    assert isinstance(error, InvalidInput)
    assert "createdb --encoding UTF8" in error.hint
    server.run("drop database latin")


@pytest.mark.parametrize("missing", ["psycopg", "psycopg_binary"])
def test_without_the_extra_it_says_what_to_install(missing: str) -> None:
    program = f"""
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {{{missing!r}, "psycopg_c"}}:
            raise ImportError(f"blocked: {{name}}")
sys.meta_path.insert(0, Blocked())
import ctypes.util
ctypes.util.find_library = lambda name: None
import strandline
from strandline.engine.maintenance import backup_log, check_log, migrate_log, schema_script
url = "postgresql://app:{SECRET}@127.0.0.1/db"
for attempt in (strandline.connect, check_log, migrate_log, lambda url: backup_log(url, "x"), lambda _: schema_script()):
    try:
        attempt(url)
    except strandline.MissingDependency as error:
        assert isinstance(error, ImportError)
        print(error.hint, "|", error)
strandline.connect("memory:").close()
from strandline.cli.app import run
sys.exit(run(["head", url]))
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ran.returncode, len(ran.stdout.splitlines())) == (2, 5), ran.stderr
    assert all(line.startswith("pip install 'strandline[postgres]' | ") for line in ran.stdout.splitlines())
    assert "hint: pip install 'strandline[postgres]'" in ran.stderr
    assert PART not in ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    "log",
    ["", "A", "a b", "_a", "-a", "a.b", 'a"b', "a;b", "ä", "x" * 51, "a\n", "$a", None, 7, "postgres/x"],
)
def test_a_bad_name_of_a_log_is_refused_before_anybody_is_asked(log: object) -> None:
    for attempt in (strandline.connect, check_log, migrate_log):
        error = refusal(attempt, f"postgresql://127.0.0.1:{UNUSED}/db", log=log)
        assert isinstance(error, InvalidInput)
        assert "a log's name has 1 to 50" in str(error)
        assert error.hint
    assert isinstance(refusal(schema_script, log=log), InvalidInput)


@pytest.mark.parametrize("log", ["a", "0", "tenant-1", "a_b", "x" * 50])
def test_good_names_of_logs_are_logs_of_their_own(server: PostgresServer, log: str) -> None:
    with strandline.connect(server.url(), log=log) as store:
        assert store.append(Event("A", {})).position == 1
    assert check_log(server.url(), log=log).events == 1


@pytest.mark.parametrize("role", ["", "x" * 64, "a\0b"])
def test_a_bad_name_of_a_role_is_refused(role: str) -> None:
    assert isinstance(refusal(schema_script, grant=[role]), InvalidInput)


def test_a_file_has_no_logs(tmp_path: Path) -> None:
    path = tmp_path / "school.db"
    strandline.connect(path).close()
    for attempt in (
        strandline.connect,
        check_log,
        migrate_log,
        lambda path, log: backup_log(path, "x", log=log),
    ):
        error = refusal(attempt, path, log="tenant-1")
        assert isinstance(error, InvalidInput)
        assert "only a PostgreSQL database has several logs" in str(error)


def test_a_foreign_schema_of_the_same_name_is_left_alone(server: PostgresServer) -> None:
    for number, made in enumerate(("table log (version int)", "table t (n int)", "view v as select 1 as n")):
        log = f"foreign{number}"
        server.run(f"create schema strandline_{log}; create {made.replace(' ', f' strandline_{log}.', 1)}")
        for attempt in (strandline.connect, check_log, migrate_log):
            error = refusal(attempt, server.url(), log=log)
            assert isinstance(error, InvalidInput)
            assert f"strandline_{log}, but it is not a Strandline log" in str(error)
            assert "choose another name" in error.hint
        assert (
            len(server.run(f"select 1 from pg_class where relnamespace = 'strandline_{log}'::regnamespace"))
            == 1
        )
    server.run(
        "create function strandline_foreign1.f() returns int language sql return 1; drop table strandline_foreign1.t"
    )
    assert isinstance(refusal(strandline.connect, server.url(), log="foreign1"), InvalidInput)


def test_an_empty_schema_of_the_same_name_becomes_the_log(server: PostgresServer, place: Place) -> None:
    server.run(f"create schema strandline_{place.log}")
    with pytest.raises(NotFound):
        place.connect(create=False)
    with place.connect() as store:
        assert store.append(Event("A", {})).position == 1


def test_a_newer_schema_is_refused_with_the_way_out(server: PostgresServer, place: Place) -> None:
    place.connect().close()
    server.run(f"update strandline_{place.log}.log set version = 9")
    for attempt in (strandline.connect, check_log, migrate_log):
        error = refusal(attempt, place.url, log=place.log)
        assert isinstance(error, SchemaMismatch)
        assert f"has schema 9, this version of Strandline knows up to schema {NOW}" in str(error)
        assert "pip install -U strandline" in error.hint


NOW = schema.version()
LATER = f"{NOW + 1:03} a note"
later_files = {"later": "alter table log add column note text; update log set note = 'new';"}


@pytest.fixture
def older(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A log with an event, and Strandline as it might be one schema later."""
    with place.connect() as store:
        store.append(Event("A", {}))
    load = schema.load
    monkeypatch.setattr(schema, "MIGRATIONS", {**schema.MIGRATIONS, LATER: ("later",)})
    monkeypatch.setattr(schema, "load", lambda package, name: later_files.get(name) or load(package, name))
    return place


def test_an_older_schema_is_refused_until_it_is_migrated(older: Place, server: PostgresServer) -> None:
    for attempt in (strandline.connect, check_log):
        error = refusal(attempt, older.url, log=older.log)
        assert isinstance(error, SchemaMismatch)
        assert error.hint == f"run: strandline migrate URL --log {older.log}"
    planned = migrate_log(older.url, log=older.log, dry_run=True)
    assert (planned.before, planned.after, planned.steps) == (NOW, NOW, [LATER])
    assert isinstance(refusal(strandline.connect, older.url, log=older.log), SchemaMismatch)
    done = migrate_log(older.url, log=older.log)
    assert (done.before, done.after, done.steps) == (NOW, NOW + 1, [LATER])
    assert server.run(f"select note from strandline_{older.log}.log") == ["new"]
    assert migrate_log(older.url, log=older.log).steps == []
    with older.connect() as store:
        assert (store.stats().schema, store.head()) == (NOW + 1, 1)
    new = Place(older.url, f"{older.log}-2")
    with new.connect() as store:
        assert store.stats().schema == NOW + 1


def test_a_migration_that_fails_leaves_the_old_schema(older: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(later_files, "later", "create table note (text text); create table note (text text);")
    with pytest.raises(StrandlineError, match="already exists"):
        migrate_log(older.url, log=older.log)
    monkeypatch.undo()
    assert migrate_log(older.url, log=older.log).before == NOW
    assert check_log(older.url, log=older.log).problems == []


OLD_APPEND = """
    create function {0}.append_v1() returns void language plpgsql as $$ begin
        perform from {0}.log for update;
        insert into {0}.event (position, recorded_at, append, id, type, tags, data)
        select max(position) + 1, max(recorded_at), max(append) + 1, gen_random_uuid(), 'A', '', '1' from {0}.event;
        insert into {0}.posting select '', 'A', max(position) from {0}.event;
    end $$
"""


WAITING = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like '%{}%'"


@pytest.fixture
def with_entries_for_types(
    place: Place, server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> tuple[Place, str]:
    """A log of schema 3 and its name in the database. Every event had an entry with the empty tag, its functions are of no use."""
    with monkeypatch.context() as before:
        before.setattr(schema, "MIGRATIONS", dict(list(schema.MIGRATIONS.items())[:3]))
        with place.connect() as store:
            store.append([Event("A", 1, tags=["t:1"]), Event("B", 2)])
            store.retag(1, add=["t:2"])
    name = f"strandline_{place.log}"
    server.run(f"insert into {name}.posting select '', type, position from {name}.event")
    for function in schema.FUNCTIONS:
        text = server.run(
            f"select pg_get_functiondef(oid) from pg_proc where proname = '{function}'"
            f" and pronamespace = '{name}'::regnamespace"
        )
        if "begin" in text:
            begin = text.index("begin") + 1
            server.run("\n".join([*text[:begin], "raise exception 'this one is old';", *text[begin:]]))
    server.run(f"drop function {name}.append_v3")
    server.run(OLD_APPEND.format(name))
    return place, name


def test_a_log_in_which_every_event_had_an_entry_for_its_type_is_migrated(
    with_entries_for_types: tuple[Place, str], server: PostgresServer
) -> None:
    place, name = with_entries_for_types
    server.run(f"select {name}.append_v1()")
    assert migrate_log(place.url, log=place.log).before == 3
    assert check_log(place.url, log=place.log).problems == []
    with place.connect() as store:
        assert [event.position for event in store.read(Query.types("B"))] == [2]
        assert [event.position for event in store.read(Query.types("A"), backwards=True)] == [4, 1]
        assert [event.position for event in store.read(Query.tag("t:2"))] == [1]
        assert (store.count(), store.count(Query.types("A")), store.stats().types) == (4, 2, 3)
        with pytest.raises(strandline.AppendConditionFailed):
            store.append(Event("B", 3), AppendCondition(Query.types("B"), after=1))
        with pytest.raises(strandline.AppendConditionFailed):
            store.append(Event("B", 3), AppendCondition(Query.tag("t:2"), after=2))
        store.append(Event("B", 3, tags=["t:2"]), AppendCondition(Query.types("B"), after=4))
    with pytest.raises(RuntimeError, match="append_v1"):  # what an older process would call
        server.run(f"select {name}.append_v1()")


def test_a_store_whose_function_a_migration_took_away_is_told_to_migrate(
    place: Place, server: PostgresServer
) -> None:
    with place.connect() as store:
        store.append(Event("A", {}))
        server.run(f"drop function strandline_{place.log}.append_v3")
        error = refusal(store.append, Event("A", {}))
        assert isinstance(error, SchemaMismatch)
        assert "strandline migrate" in error.hint
        assert store.head() == 1


def test_an_append_of_before_that_waited_for_the_migration_fails(
    with_entries_for_types: tuple[Place, str], server: PostgresServer
) -> None:
    place, name = with_entries_for_types
    with psycopg.connect(str(place.url)) as migrating, ThreadPoolExecutor(1) as pool:
        migrating.execute(schema.ddl(Address(str(place.url), str(place.log)), 3))
        waiting = pool.submit(server.run, f"select {name}.append_v1()")
        while not server.run(WAITING.format("append_v1()")):
            assert not waiting.done()
        migrating.commit()
        with pytest.raises(RuntimeError, match="posting_has_a_tag"):
            waiting.result()
    assert check_log(place.url, log=place.log).problems == []


def test_a_migration_waits_for_an_append_and_not_that_one_for_it(
    with_entries_for_types: tuple[Place, str], server: PostgresServer
) -> None:
    place, name = with_entries_for_types
    with psycopg.connect(str(place.url)) as appending, ThreadPoolExecutor(1) as pool:
        appending.execute(f"select from {name}.log for update")
        migration = pool.submit(migrate_log, place.url, log=place.log)
        while not server.run(WAITING.format("lock table log")):
            assert not migration.done()
        appending.execute(f"select {name}.append_v1()")
        appending.commit()
        assert migration.result().steps == list(schema.MIGRATIONS)[3:]
    assert check_log(place.url, log=place.log).problems == []
    with place.connect() as store:
        assert store.head() == 4


def test_retags_of_before_are_found_by_every_tag_of_what_they_changed(
    place: Place, server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In schema 4 the index had a retag under the tags that it gave or took, and the functions had other names."""
    name, chance = f"strandline_{place.log}", random.Random(5)
    with monkeypatch.context() as before:
        before.setattr(schema, "MIGRATIONS", dict(list(schema.MIGRATIONS.items())[:4]))
        with place.connect() as store:
            store.append([Event("A", n, tags=["t:1", f"n:{n}"], subject="u") for n in range(5)], stream="s")
            store.append([Event("A", {}, tags=["t:1"]).with_key("k"), Event("B", {})])
            for _ in range(40):
                positions = chance.sample(range(1, 8), 2)
                store.retag(positions, replace={"t": chance.sample("123", chance.randrange(3))}, add=["x"])
                store.retag(positions, replace={chance.choice("nt"): []}, add=[f"t:{chance.randrange(4)}"])
            store.retag([7], add=["last"])
    entries = f"select tag, position from {name}.posting where type = '$retagged' order by tag, position"
    expected = server.run(entries)
    server.run(
        f"""delete from {name}.posting p using {name}.event e where p.type = '$retagged' and e.position = p.position and
        not exists (
            select from jsonb_to_recordset(convert_from(e.data, 'UTF8')::jsonb -> 'changes') c (removed text[], added text[])
            where substr(p.tag, 10) = any (c.removed || c.added)
        );
        alter function {name}.append_v3 rename to append_v2; alter function {name}.retag_v2 rename to retag_v1"""
    )
    assert len(server.run(entries)) < len(expected)
    assert migrate_log(place.url, log=place.log).steps == list(schema.MIGRATIONS)[4:]
    assert server.run(entries) == expected
    assert (
        server.run(
            f"select proname from pg_proc where proname in ('append_v2', 'retag_v1') and pronamespace = '{name}'::regnamespace"
        )
        == []
    )
    assert check_log(place.url, log=place.log).problems == []
    with place.connect() as store:
        after = store.head() - 1
        for query in (Query.types("B"), Query.tag("last")):
            with pytest.raises(strandline.AppendConditionFailed):
                store.append(Event("C", 1), AppendCondition(query, after))
        store.append(Event("C", 1), AppendCondition(Query.tag("n:0"), after))


def test_a_migration_needs_an_owner_and_says_so(older: Place, server: PostgresServer) -> None:
    server.run("create role not_the_owner login")
    server.run(schema_script(log=str(older.log), grant=["not_the_owner"]))
    url = server.url(user="not_the_owner")
    assert migrate_log(url, log=older.log, dry_run=True).steps == [LATER]
    error = refusal(migrate_log, url, log=older.log)
    assert isinstance(error, strandline.Forbidden)
    assert "owner" in error.hint
    server.run("drop owned by not_the_owner; drop role not_the_owner")


def test_a_migration_verifies_that_nothing_is_missing(place: Place, server: PostgresServer) -> None:
    place.connect().close()
    server.run(f"drop index strandline_{place.log}.event_by_id")
    error = refusal(migrate_log, place.url, log=place.log)
    assert (error.code, "lacks event_by_id" in str(error)) == ("corrupt_log", True)


def test_several_may_migrate_at_once(older: Place) -> None:
    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(lambda _: migrate_log(older.url, log=older.log), range(4)))
    assert {report.after for report in reports} == {NOW + 1}
    with older.connect() as store:
        assert store.stats().schema == NOW + 1


def test_what_the_server_can_never_keep_is_told_as_bad_input(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "MAX_KEY_BYTES", 10_000)
    some = random.Random(1)
    key = "".join(chr(some.randrange(0x10000, 0x10FFFF)) for _ in range(1_000))
    with place.connect() as store:
        with pytest.raises(InvalidInput, match="cannot keep this: index row") as refused:
            store.append(Event("A", {}).with_key(key))
        assert (refused.value.retry, store.head()) == ("no", 0)
        assert "shorten the names" in refused.value.hint
