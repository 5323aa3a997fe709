from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from urllib.parse import quote
from uuid import uuid4

import pytest
from school_models import Course, CourseDefined, CourseId

import strandline
from history import write_history
from places import Place
from proxies import PoolingProxy
from strandline import Event, errors
from strandline.cli.doctor.database import commit_finding, rights_finding, version_finding, writes_finding
from strandline.engine.maintenance import check_log, schema_script
from strandline.engine.postgres.schema import version
from strandline.engine.postgres.server import Rights, Settings
from strandline.follow import ReadModel
from strandline.testing.postgres import VERSIONS, PostgresServer

SECRET = "Tr0ub4dor&3"
PART = "Tr0ub4dor"
UNUSED = 1  # a port where nobody listens


def by_name(ran):
    return {row["name"]: row for row in ran.rows}


def test_every_command_reads_a_database_as_it_reads_a_file(cli, school, database):
    in_database = (database.url, "--log", database.log)
    for command in (["read"], ["read", "--tag", "student:s1"], ["tail", "--no-follow", "-n", "2"], ["head"]):
        expected, done = cli(command[0], school, *command[1:]), cli(command[0], *in_database, *command[1:])
        assert (done.code, done.err) == (0, "")
        for row, same in zip(done.rows, expected.rows, strict=True):
            assert {**row, "recorded_at": 0, "id": 0} == {**same, "recorded_at": 0, "id": 0}
    (stats,), (check,) = cli("stats", *in_database).rows, cli("check", *in_database).rows
    assert (stats["engine"], stats["head"], stats["tags"]) == ("postgres", 5, 5)
    assert (check["ok"], check["events"], check["appends"]) == (True, 5, 5)
    (migration,) = cli("migrate", *in_database).rows
    assert migration == {"after": version(), "before": version(), "dry_run": False, "steps": []}


def test_append_makes_the_log_and_is_refused_by_its_condition(cli, database):
    where = (database.url, "--log", f"{database.log}-new")
    first = cli("append", *where, "CourseDefined", "{}", "--tag", "course:c1", "--fail-if-tag", "course:c1")
    assert (first.code, first.rows[0]["position"]) == (0, 1)
    again = cli("append", *where, "CourseDefined", "{}", "--fail-if-tag", "course:c1")
    assert (again.code, again.out) == (1, "")
    assert again.err.startswith("error: event 1 (CourseDefined) matches")


def test_lines_go_from_a_file_to_a_database_and_back(cli, school, database, tmp_path):
    (tmp_path / "events").write_text(cli("read", school).out)
    copy = (database.url, "--log", f"{database.log}-copy")
    for written in (5, 0):  # the same lines again change nothing
        assert cli("append", *copy, "--ndjson", "events").rows[0]["written"] == written
    (tmp_path / "back").write_text(cli("read", *copy).out)
    assert cli("append", "copy.db", "--ndjson", "back").rows[0]["written"] == 5


def test_url_and_log_may_come_from_the_environment(cli, database, monkeypatch):
    monkeypatch.setenv("STRANDLINE_URL", str(database.url))
    monkeypatch.setenv("STRANDLINE_LOG", str(database.log))
    assert cli("head").rows == [{"head": 5}]
    assert cli("append", "Told", '{"n": 1}').rows[0]["position"] == 6
    assert cli("check").rows[0]["ok"]
    other = cli("head", "--log", "no-such-log")
    assert (other.code, other.out) == (2, "")
    assert other.err.startswith("error: there is no log 'no-such-log' on 127.0.0.1")
    assert cli("append", str(database.url)).err.startswith("error: an event has a type")


def test_tail_shows_what_another_process_appends(terminal, database):
    tail = terminal("tail", str(database.url), "--log", str(database.log))
    tail.wait_for("waiting for events after position 5")
    with database.connect() as store:
        store.append(Event("JustNow", {"n": 1}))
    tail.wait_for("JustNow")
    tail.interrupt()
    assert tail.finish().code == 0


@pytest.mark.parametrize("command", ["append", "read", "tail", "head", "stats", "check", "migrate", "backup"])
def test_a_file_has_no_logs(cli, command, school):
    more = {"append": ["A"], "backup": ["copy.db"]}.get(command, [])
    done = cli(command, school, *more, "--log", "tenant-1")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(
        "error: only a PostgreSQL database has several logs, so there is no log 'tenant-1'"
    )
    assert by_name(cli("doctor", school, "--log", "tenant-1"))["store"]["state"] == "bad"


@pytest.mark.parametrize("command", ["append", "read", "tail", "head", "stats", "check", "migrate", "backup"])
@pytest.mark.parametrize(
    ("url", "code", "said"),
    [
        (f"postgresql://app:{PART}%zz@127.0.0.1/db", "invalid_input", "not the URL of a PostgreSQL database"),
        (f"postgresql://app:x@{PART}@127.0.0.1/db", "invalid_input", "not the URL of a PostgreSQL database"),
        (
            f"postgresql://app:{SECRET}@127.0.0.1:x/db",
            "invalid_input",
            "not the URL of a PostgreSQL database",
        ),
        (f"postgresql:/app:{SECRET}@127.0.0.1/db", "invalid_input", "not the URL of a store"),
        (f"postgresql://app:{SECRET}@127.0.0.1:{UNUSED}/db", "unavailable", "does not answer"),
    ],
)
def test_what_cannot_be_reached_is_one_line_with_a_hint_and_without_password(cli, command, url, code, said):
    more = {"append": ["A"], "backup": ["copy.db"]}.get(command, [])
    plain, as_json = cli(command, url, *more), cli(command, url, *more, "--json")
    assert PART not in plain.out + plain.err + as_json.out + as_json.err
    if command == "backup" and code == "unavailable":  # it asks nobody
        return
    failure = json.loads(as_json.err)
    kind = next(kind for kind in vars(errors).values() if getattr(kind, "code", "") == code)
    assert (plain.code, as_json.code, failure["code"]) == (kind.exit_code, kind.exit_code, code)
    assert said in failure["message"]
    assert failure["hint"]
    assert [line.partition(":")[0] for line in plain.err.splitlines()] == ["error", "hint"]
    (store,) = [row for row in cli("doctor", url).rows if row["name"] == "store"]
    assert (store["state"], bool(store["fix"])) == ("bad", True)
    assert PART not in str(store)


def test_a_password_is_not_repeated_by_what_complains_about_the_command_line(cli, process, database):
    url = f"postgresql://app:{SECRET}@127.0.0.1:{UNUSED}/db"
    for arguments in (
        ["head", url, url],
        ["read", "--tag", url, url, url],
        [url],
        ["head", "--nosuch", url],
        ["append", "copy.db", "--ndjson", url],
        ["append", "copy.db", "A", f"@{url}"],
        ["backup", "copy.db", url],
    ):
        done = cli(*arguments)
        assert (done.code, PART in done.out + done.err) == (2, False)
    ran = process("append", str(database.url).replace("@", f":{SECRET}@"), "A", "--log", f"{database.log}-x")
    assert (ran.code, PART in ran.out + ran.err) == (0, False)


def test_a_new_log_is_announced_without_password(terminal, database):
    url = str(database.url).replace("@", f":{quote(SECRET)}@")
    done = terminal("append", url, "A", "--log", f"{database.log}-x", NO_COLOR="1").finish()
    assert f"a new log begins in {database.url}" in done.out
    assert PART not in done.out


def test_errors_of_a_server_have_the_exit_status_of_the_table(cli, database):
    nowhere = f"{database.url}".removesuffix("postgres") + "nowhere"
    for arguments, said in (
        ((nowhere,), "there is no database nowhere"),
        ((database.url, "--log", "nowhere"), "there is no log 'nowhere'"),
        ((database.url, "--log", "No Where"), "a log's name has 1 to 50"),
        ((str(database.url).replace("postgres@", "nobody-knows@"),), "lets nobody in"),
    ):
        done = cli("head", *arguments)
        assert (done.code, done.out) == (2, "")
        assert said in done.err.splitlines()[0]
        assert done.err.splitlines()[1].startswith("hint: ")


def test_the_printed_sql_makes_a_log_and_lets_a_role_use_it(cli, database, postgres_server):
    server, log = postgres_server("postgres18"), f"{database.log}-made"
    role = f'app "{database.log}"'
    made, granted = cli("schema", "--log", log), cli("schema", "--log", log, "--grant", role)
    assert (made.code, made.err, granted.code, granted.err) == (0, "", 0, "")
    assert (made.out, granted.out) == (schema_script(log=log), schema_script(log=log, grant=[role]))
    assert made.out.startswith("begin;\n")
    assert made.out.endswith("commit;\n")
    assert json.loads(cli("schema", "--log", log, "--json").out) == {"log": log, "sql": made.out}
    quoted = '"' + role.replace('"', '""') + '"'
    server.run(f"create role {quoted} login")
    server.run(made.out + granted.out)
    try:
        url = server.url(user=role)
        assert cli("append", url, "A", "--log", log).code == 0
        assert by_name(cli("doctor", url, "--log", log))["rights"]["state"] == "ok"
        assert cli("head", url, "--log", database.log).err.startswith("error: you may not look at log")
    finally:
        server.run(f"drop owned by {quoted}; drop role {quoted}")


def test_the_printed_sql_refuses_bad_names(cli):
    for arguments in (["--log", "No"], ["--grant", ""], ["--grant", "x" * 64]):
        done = cli("schema", *arguments)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("error: ")


def keep_total(events, tx):
    tx.execute("create table if not exists total (name text primary key, amount bigint)")
    for _ in events:
        tx.execute(
            "insert into total values ('all', 100) on conflict (name) do update set amount = total.amount + 100"
        )


def total(store):
    return store.engine.rows("select amount from total")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_pg_dump_line_of_backup_makes_a_backup(cli, version, postgres_server, tmp_path, monkeypatch):
    server: PostgresServer = postgres_server(f"postgres{version}")
    monkeypatch.setenv("PATH", f"{server.program('pg_dump').parent}{os.pathsep}{os.environ['PATH']}")
    database, restored = f"school_{uuid4().hex[:12]}", f"restored_{uuid4().hex[:12]}"
    server.run(f"create database {database}")
    server.run(f"create database {restored}")
    place = Place(server.url(database), "school")
    with place.connect() as store:
        write_history(store)
        store.append(CourseDefined(capacity=2).with_tags(CourseId("c1")))
        store.follower("total").catch_up(keep_total)
        ReadModel(Course, table="courses").catch_up(store)
    url = server.url(database, password=SECRET)
    done = cli("backup", url, "of course.dump", "--log", place.log)
    assert (done.code, done.out) == (2, "")
    (line,) = re.findall(r"^hint: run: (pg_dump .*)$", done.err, re.MULTILINE)
    assert PART not in done.err
    assert server.url(database) in shlex.split(line)
    subprocess.run(["bash", "-euc", line], check=True)
    restore = (
        f"pg_restore --exit-on-error --no-owner --no-acl --dbname={server.url(restored)} 'of course.dump'"
    )
    subprocess.run(["bash", "-euc", restore], check=True)
    with place.connect() as store, strandline.connect(server.url(restored), log=place.log) as copy:
        assert list(copy.read()) == list(store.read())
        assert copy.stats().log == store.stats().log
        assert check_log(server.url(restored), log=place.log).problems == []
        assert copy.append(Event("After", {}), copy.read().condition).position == 26
        for each, events in ((store, 25), (copy, 26)):  # checkpoints and tables are from the same moment
            each.follower("total").catch_up(keep_total)
            assert total(each) == [(100 * events,)]
        courses = ReadModel(Course, table="courses")
        courses.catch_up(copy)
        assert courses.get("c1") == copy.project(Course, "c1")
    server.run(f"drop database {restored}")
    server.run(f"drop database {database}")


def test_backup_of_a_database_needs_no_target(cli, terminal):
    url = f"postgresql://app:{SECRET}@db.example.com/school?sslmode=verify-full"
    line = (
        "pg_dump --format=custom --file=tenant-1.dump"
        " 'postgresql://app@db.example.com/school?sslmode=verify-full'"
    )
    assert f"hint: run: {line}\n" in cli("backup", url, "--log", "tenant-1").err
    wide = terminal("backup", url, "--log", "tenant-1", columns=60, NO_COLOR="1").finish().out
    assert f"hint: run: {line}" in wide  # not broken into lines: people copy it


def test_doctor_finds_a_fit_server_and_says_who_may_do_too_much(cli, database):
    found = by_name(cli("doctor", database.url, "--log", database.log))
    for name in ("server", "encoding", "fsync", "full page", "sync. commit", "connection", "writes", "store"):
        assert found[name]["state"] == "ok", found[name]
    assert "disk" not in found  # this machine's disk is not the server's
    assert found["connection"]["found"] == "direct"
    assert "PostgreSQL 18 at 127.0.0.1" in found["server"]["found"]
    assert (found["rights"]["state"], found["rights"]["found"]) == (
        "warning",
        "postgres may even change events",
    )
    assert cli("doctor", database.url, "--log", database.log).code == 0


def test_doctor_sees_a_pooler(cli, database):
    with PoolingProxy(str(database.url)) as pooler:
        found = by_name(cli("doctor", pooler.url, "--log", database.log))
    assert "through a pooler" in found["connection"]["found"]
    assert found["store"]["state"] == "ok"


def test_doctor_says_who_may_do_too_little(cli, database, postgres_server):
    server = postgres_server("postgres18")
    server.run("create role little login")
    where = (server.url(user="little"), "--log", database.log)
    schema = f"strandline_{database.log}"
    try:
        done = cli("doctor", *where)
        assert (done.code, by_name(done)["rights"]["state"]) == (2, "bad")
        assert f"--log {database.log} --grant little | psql URL" in by_name(done)["rights"]["fix"]
        missing = by_name(cli("doctor", where[0], "--log", f"{database.log}-none"))
        assert (missing["rights"]["state"], missing["store"]["state"]) == ("bad", "bad")
        assert "little may not make the log" in missing["rights"]["found"]
        server.run(
            f"grant usage on schema {schema} to little; grant select on all tables in schema {schema} to little"
        )
        server.run("alter role little set default_transaction_read_only = on")
        done = cli("doctor", *where)
        assert (done.code, by_name(done)["rights"]["state"], by_name(done)["writes"]["state"]) == (
            0,
            "warning",
            "warning",
        )
        assert "not append" in by_name(done)["rights"]["found"]
        server.run(by_name(done)["writes"]["fix"].removeprefix("as superuser: "))
        assert by_name(cli("doctor", *where))["writes"]["state"] == "ok"
    finally:
        server.run("drop owned by little; drop role little")


def test_doctor_warns_of_a_server_that_may_lose_data_and_of_a_replica(cli, terminal):
    unsafe = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
    with PostgresServer.start(version=18, settings=unsafe) as server:
        with strandline.connect(server.url()) as store:
            store.append(Event("A", {}))
        done = cli("doctor", server.url())
        found = by_name(done)
        assert done.code == 2
        for name in ("fsync", "full page"):
            assert found[name]["state"] == "bad"
            assert "alter system set" in found[name]["fix"]
        assert found["sync. commit"]["state"] == "ok"
        assert "wait for the disk all the same" in found["sync. commit"]["found"]
        shown = terminal("doctor", server.url(), columns=80, NO_COLOR="1").finish().out
        assert "BAD   fsync" in shown
        assert max(map(len, shown.splitlines())) <= 80
        with server.replica() as replica:
            found = by_name(cli("doctor", replica.url()))
            assert found["writes"]["state"] == "warning"
            assert "replica" in found["writes"]["found"]
            assert found["store"]["state"] == "ok"
            assert cli("head", replica.url()).rows == [{"head": 1}]
            assert [row["type"] for row in cli("tail", replica.url(), "--no-follow").rows] == ["A"]
            assert cli("check", replica.url()).rows[0]["ok"]
            with strandline.connect(replica.url()) as late, late.subscribe(after=1) as coming:
                cli("append", server.url(), "B")
                assert next(coming).type == "B"
            refused = cli("append", replica.url(), "C")
            assert refused.code == errors.Unavailable.exit_code
            assert "takes no writes" in refused.err
            assert "connect to the primary server" in refused.err


@pytest.mark.parametrize(
    ("version", "state"),
    [(13, "bad"), (14, "warning"), (15, "warning"), (16, "ok"), (17, "ok"), (18, "ok"), (19, "warning")],
)
def test_doctor_knows_which_servers_are_tested(version, state):
    finding = version_finding(version, "here")
    assert (finding.state, bool(finding.fix)) == (state, state != "ok")


def test_doctor_has_a_word_for_every_level_and_right():
    assert [commit_finding(level).found for level in ("on", "remote_apply")] == ["on", "remote_apply"]
    settings = Settings(
        180000, "UTF8", "on", "on", "on", is_replica=False, is_read_only=False, role="r o", may_create=True
    )
    assert writes_finding(settings).state == "ok"
    assert rights_finding(settings, None, "x").state == "ok"
    finding = rights_finding(settings, Rights(may_read=False, may_append=True, may_change=False), "x")
    assert (finding.state, "--grant 'r o'" in finding.fix) == ("bad", True)
