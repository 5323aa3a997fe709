"""Least privilege: an owner runs a printed script, and an application may read and append, nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import quote
from uuid import uuid4

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege

import strandline
from strandline import (
    AppendCondition,
    AppendConditionFailed,
    AppendRequest,
    Event,
    EventStore,
    Forbidden,
    Query,
    QueryItem,
    connect_async,
)
from strandline.engine.maintenance import check_log, migrate_log, schema_script
from strandline.engine.postgres.address import Address
from strandline.engine.postgres.batch import Batch
from strandline.engine.postgres.connection import Connection
from strandline.engine.postgres.search import Search, Statements
from strandline.testing import violations
from strandline.testing.postgres import VERSIONS, PostgresServer

TABLES = {
    "log": "version",
    "event": "tags",
    "posting": "tag",
    "appended_tags": "tags",
    "tracking": "source",
    "refusal": "events",
    "note": "value",
}
"""The tables of a log, and a column of each."""


class Database(NamedTuple):
    """A database with an owner who is no superuser, and roles to whom the owner may grant something."""

    server: PostgresServer
    name: str

    def url(self, role: str) -> str:
        return self.server.url(self.name, user=f"{self.name}_{role}")

    def run_as(self, role: str, sql: str) -> None:
        with psycopg.connect(self.url(role), autocommit=True) as connection:
            connection.execute(sql)

    def new_log(self, *grant: str) -> str:
        """A log made by the owner, with the printed scripts."""
        log = f"t{uuid4().hex[:12]}"
        self.run_as("owner", schema_script(log=log))
        if grant:
            self.run_as("owner", schema_script(log=log, grant=[f"{self.name}_{role}" for role in grant]))
        return log


@pytest.fixture(scope="module", params=VERSIONS)
def database(
    request: pytest.FixtureRequest, postgres_server: Callable[[str], PostgresServer]
) -> Iterator[Database]:
    server = postgres_server(f"postgres{request.param}")
    name = f"roles_{uuid4().hex[:12]}"
    server.run(f"create database {name}")
    for role in ("owner", "app", "other"):
        server.run(f"create role {name}_{role} login")
    server.run(f"grant create on database {name} to {name}_owner")
    yield Database(server, name)
    server.run(f"drop database {name} with (force)")
    for role in ("owner", "app", "other"):
        server.run(f"drop role {name}_{role}")


@pytest.fixture(scope="module")
def log(database: Database) -> str:
    """A log with one event that `app` may use."""
    name = database.new_log("app")
    with strandline.connect(database.url("app"), log=name) as store:
        store.append(Event("Taken", {}, tags=["seat:1"]))
    return name


def use_all_of(store: EventStore) -> None:
    """The whole public API."""
    first = Event("Taken", {"n": 1}, tags=["seat:1"], subject="ada", metadata={"by": "test"})
    assert store.append(first, stream="s").position == 1
    assert store.append(first, stream="s").duplicate
    assert store.append(Event("Taken", {}), unless_exists=Query.tag("seat:1")).duplicate
    seat = Query.tag("seat:1")
    with pytest.raises(AppendConditionFailed):
        store.append(Event("Taken", {}), AppendCondition(seat))
    by_payload = Query.of(QueryItem(where={"n": 1}))
    by_callable = Query.of(QueryItem(tags=["seat:1"], where=lambda event: event.json()["n"] == 1))
    for query in (by_payload, by_callable):
        with pytest.raises(AppendConditionFailed):
            store.append(Event("Taken", {}), AppendCondition(query))
        store.append(Event("Other", [1]), store.read(query).condition)
    parts = AppendCondition.all_of(AppendCondition(seat, after=1), AppendCondition(by_callable, after=3))
    requests = [AppendRequest([Event("Many", b"\0")], parts), AppendRequest([Event("Many", {})], parts)]
    assert [result.position for result in store.append_many(requests)] == [4, 5]
    assert store.retag(seat, add=["vip"], replace={"seat": ["2"]}).position == 6
    with pytest.raises(AppendConditionFailed):
        store.append(Event("Taken", {}), AppendCondition(seat, after=5))
    found = store.read(Query.tag("vip") | Query.types("Many"), backwards=True)
    assert [event.position for event in found] == [5, 4, 1]
    assert store.head() == store.read(until=9, limit=1).head == store.position_at(datetime.now(UTC)) == 6
    assert (store.count(Query.stream("s")), store.exists(Query.subject("ada"), after=1)) == (1, False)
    assert [append.first for append in store.appends()] == [1, 2, 3, 4, 5, 6]
    assert (store.stats().refused, store.stats().size_bytes > 0) == (4, True)
    assert store.append((), tracking=("orders", 17)).count == 0
    assert store.tracked("orders") == 17
    assert violations(store) == []
    with store.subscribe(Query.types("Late"), after=3) as coming:
        threading.Timer(0.05, store.append, [Event("Late", {})]).start()
        assert next(coming).position == 7
    use_followers(store)


def use_followers(store: EventStore) -> None:
    """A follower with a dead letter, which is paused, reset and forgotten."""
    follower = store.follower("seats", Query.types("Taken"))

    def fail(events: object, tx: object) -> None:
        raise ValueError

    assert follower.catch_up(fail, attempts=1) == 7
    follower.pause()
    follower.resume()
    follower.replay(1, lambda events, tx: tx.execute("select 1"))
    assert follower.reset(2) == 2
    assert [status.position for status in store.followers()] == [2]
    follower.forget()


async def use_async(url: str, log: str) -> None:
    async with connect_async(url, log=log) as store:
        await store.append(Event("Async", {}))
        async for event in store.subscribe(Query.types("Async")):
            assert event.position == 8
            break


def test_an_application_role_can_use_the_whole_api(database: Database) -> None:
    log, url = database.new_log("app"), database.url("app")
    with strandline.connect(url, log=log) as store:
        use_all_of(store)
    asyncio.run(use_async(url, log))
    assert check_log(url, log=log).problems == []
    assert migrate_log(url, log=log).steps == []


WRITES = [
    statement.format(table=table, column=column)
    for table, column in TABLES.items()
    for statement in (
        "insert into {table} select * from {table}",
        "update {table} set {column} = {column}",
        "delete from {table}",
        "truncate {table}",
        "drop table {table}",
        "alter table {table} add column x int",
        "alter table {table} disable trigger all",
        "create index on {table} ((1))",
        "create trigger x before insert on {table} execute function suppress_redundant_updates_trigger()",
        "create rule x as on insert to {table} do instead nothing",
        "select from {table} for update",
        "select from {table} for key share",
        "lock table {table} in row exclusive mode",
        "lock table {table} in share mode",
        "lock table {table} in exclusive mode",
        "lock table {table} in access exclusive mode",
        "copy {table} from program 'true'",
        "reindex table {table}",
    )
]
WRITES += [
    "truncate follower",
    "drop table dead_letter",
    "alter table follower add column x int",
    "create trigger x before insert on follower execute function suppress_redundant_updates_trigger()",
    "select retag_v2(0)",
    "grant execute on function retag_v2 to current_user",
    "drop function append_v3",
    "alter function append_v3 security invoker",
    "alter function append_v3 set search_path = pg_temp",
    "create table x (n int)",
    "create function x() returns int language sql return 1",
    "create or replace function types_v1(p_tag text) returns table (type text) language sql as 'select null::text'",
    "drop index event_by_id",
    "drop schema {schema} cascade",
    "alter schema {schema} rename to stolen",
    "set role {owner}",
    "create schema strandline_another",
]


@pytest.fixture(scope="module")
def as_app(database: Database, log: str) -> Iterator[psycopg.Connection]:
    path = f'-c search_path="strandline_{log}"'
    with psycopg.connect(database.url("app"), options=path, autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize("statement", WRITES)
def test_an_application_role_can_do_nothing_else(
    database: Database, log: str, as_app: psycopg.Connection, statement: str
) -> None:
    sql = statement.replace("{schema}", f"strandline_{log}").replace("{owner}", f"{database.name}_owner")
    with pytest.raises(InsufficientPrivilege), as_app.transaction():
        as_app.execute(sql)


@pytest.mark.parametrize("grant", ["insert on event", "create on schema {schema}"])
def test_an_application_role_cannot_grant_itself_more(
    log: str, as_app: psycopg.Connection, grant: str
) -> None:
    """PostgreSQL does not refuse it, it just grants nothing."""
    as_app.execute(f"grant {grant.replace('{schema}', f'strandline_{log}')} to current_user")
    for statement in ("insert into event select * from event", "create table x (n int)"):
        with pytest.raises(InsufficientPrivilege):
            as_app.execute(statement)


def test_tables_of_the_same_name_do_not_fool_the_functions(database: Database) -> None:
    log = database.new_log("app")
    shadows = ";".join(f"create temp table {table} (like strandline_{log}.{table})" for table in TABLES)
    options = quote("-c search_path=pg_temp,public")
    with strandline.connect(f"{database.url('app')}?options={options}", log=log) as store:
        store.append(Event("A", {}, tags=["k:1"]))
        for connection in [*store.engine._readers.connections, store.engine._connection]:
            connection.run(shadows)
        condition = AppendCondition(Query.tag("k:1"))
        with pytest.raises(AppendConditionFailed):
            store.append(Event("A", {}), condition)
        assert store.append(Event("B", {})).position == 2
        assert (store.count(Query.tag("k:1")), len(list(store.read()))) == (1, 2)


def test_a_role_without_grants_gets_the_command_that_helps(database: Database, log: str) -> None:
    for attempt in (strandline.connect, check_log, migrate_log):
        with pytest.raises(Forbidden, match=f"log '{log}'") as refusal:
            attempt(database.url("other"), log=log)
        assert f"strandline schema --log {log} --grant ROLE | psql URL" in refusal.value.hint
    with psycopg.connect(database.url("other"), autocommit=True) as connection:
        for table in TABLES:
            with pytest.raises(InsufficientPrivilege):
                connection.execute(f"select from strandline_{log}.{table}")
        with pytest.raises(InsufficientPrivilege):
            connection.execute(f"select strandline_{log}.read_v1(0, null, 1, false, null, null, null)")


def test_a_role_without_grants_cannot_hold_up_appends(database: Database, log: str) -> None:
    """Advisory locks are for everybody, so no append waits for one."""
    with (
        psycopg.connect(database.url("other")) as outsider,
        strandline.connect(database.url("app"), log=log) as store,
    ):
        outsider.execute("select pg_advisory_lock(hashtextextended(%s, 0))", [f"strandline_{log}"])
        outsider.execute("select pg_advisory_lock(n) from generate_series(-1000, 1000) n")
        assert store.append(Event("A", {})).count == 1


def test_a_role_that_may_only_read_is_refused_when_it_appends(database: Database) -> None:
    log = database.new_log()
    schema = f"strandline_{log}"
    database.run_as(
        "owner",
        f"grant usage on schema {schema} to {database.name}_other;"
        f"grant select on all tables in schema {schema} to {database.name}_other",
    )
    with strandline.connect(database.url("other"), log=log) as store:
        assert store.head() == 0
        for condition in (None, AppendCondition(Query.of(QueryItem(where=lambda event: True)))):
            with pytest.raises(Forbidden, match="append_v3") as refusal:
                store.append(Event("A", {}), condition)
            assert f"--log {log} --grant ROLE" in refusal.value.hint


def test_logs_of_one_database_see_nothing_of_each_other(database: Database) -> None:
    mine, others = database.new_log("app"), database.new_log("other")
    with (
        strandline.connect(database.url("app"), log=mine) as store,
        strandline.connect(database.url("other"), log=others) as other,
    ):
        same = Event("A", {"n": 1}, tags=["k:1"], subject="x")
        for each in (store, other):
            assert each.append(same, AppendCondition(Query.all()), stream="s").first == 1
        assert (
            store.append([Event("B", {}), Event("B", {})], other.read(Query.tag("k:2")).condition).last == 3
        )
        other.retag([1], add=["vip"])
        assert (store.head(), other.head()) == (3, 2)
        assert (store.count(Query.tag("vip")), other.count(Query.types("B"))) == (0, 0)
        assert store.stats().log != other.stats().log
    for role, log in (("app", others), ("other", mine)):
        with pytest.raises(Forbidden):
            strandline.connect(database.url(role), log=log)
    for log in (mine, others):
        assert check_log(database.url("owner"), log=log).problems == []


def test_a_role_with_grants_on_one_log_cannot_reach_another_by_sql(database: Database) -> None:
    mine, others = database.new_log("app"), database.new_log("other")
    with psycopg.connect(database.url("app"), autocommit=True) as connection:
        connection.execute(f"select from strandline_{mine}.event")
        for statement in (
            "select from strandline_{log}.event",
            "select strandline_{log}.read_v1(0, null, 9, false, null, null, null)",
            "select strandline_{log}.count_v1('{{}}', '{{}}', '{{}}')",
            "select strandline_{log}.types_v1('')",
        ):
            with pytest.raises(InsufficientPrivilege):
                connection.execute(statement.format(log=others))


def test_grants_take_away_what_default_privileges_gave(database: Database) -> None:
    app, defaults = f"{database.name}_app", "alter default privileges"
    try:
        for given in ("tables", "schemas"):
            database.run_as("owner", f"{defaults} grant all on {given} to {app}")
        database.run_as("owner", f"{defaults} revoke execute on functions from public")
        log = database.new_log()
    finally:
        for given in ("tables", "schemas"):
            database.run_as("owner", f"{defaults} revoke all on {given} from {app}")
        database.run_as("owner", f"{defaults} grant execute on functions to public")
    too_much = (f"delete from strandline_{log}.posting", f"create table strandline_{log}.x (n int)")
    for statement in too_much:
        database.run_as("app", statement)
    database.run_as("app", f"drop table strandline_{log}.x")
    database.run_as("owner", schema_script(log=log, grant=[app]))
    for statement in too_much:
        with pytest.raises(InsufficientPrivilege):
            database.run_as("app", statement)
    with strandline.connect(database.url("app"), log=log) as store:
        use_all_of(store)


@pytest.mark.parametrize(
    "role", ['we"ird', "two words", "x; drop schema y; --", "Ünï", "{schema}", "{role}", "a'b''c", "$$"]
)
def test_role_names_are_quoted(database: Database, role: str) -> None:
    server = database.server
    quoted = '"' + role.replace('"', '""') + '"'
    log = database.new_log()
    server.run(f"create role {quoted} login")
    try:
        database.run_as("owner", schema_script(log=log, grant=[role]))
        with strandline.connect(server.url(database.name, user=role), log=log) as store:
            assert store.append(Event("A", {})).position == 1
    finally:
        server.run(f"drop owned by {quoted}", database=database.name)
        server.run(f"drop role {quoted}")


def test_the_scripts_do_in_psql_what_they_do_elsewhere(database: Database) -> None:
    log = f"t{uuid4().hex[:12]}"
    database.server.run(schema_script(log=log), database=database.name)
    database.server.run(schema_script(log=log, grant=[f"{database.name}_app"]), database=database.name)
    with strandline.connect(database.url("app"), log=log) as store:
        assert store.append(Event("A", {})).position == 1
    assert migrate_log(database.server.url(database.name), log=log).steps == []


def test_a_script_that_runs_twice_changes_nothing(database: Database) -> None:
    log = database.new_log("app")
    with strandline.connect(database.url("app"), log=log) as store:
        store.append(Event("A", {}))
        uuid = store.stats().log
        with pytest.raises(psycopg.errors.DuplicateSchema):
            database.run_as("owner", schema_script(log=log))
        database.run_as("owner", schema_script(log=log, grant=[f"{database.name}_app"]))
        assert (store.stats().log, store.append(Event("A", {})).position) == (uuid, 2)


def test_an_owner_cannot_take_the_rights_away_that_the_function_writes_with(database: Database) -> None:
    log = database.new_log("app")
    with pytest.raises(psycopg.errors.RaiseException, match="owns the log"):
        database.run_as("owner", schema_script(log=log, grant=[f"{database.name}_owner"]))
    with strandline.connect(database.url("app"), log=log) as store:
        assert store.append(Event("A", {})).position == 1


def test_what_a_forged_call_of_the_function_writes_is_found_by_check(database: Database) -> None:
    """It trusts its caller with what it writes, as it must; whoever calls it past our code can write nonsense."""
    log = database.new_log("app")
    address = Address(database.url("app"), log)
    forged = Batch(record_conditions=True)
    forged.add_events([Event("A", {}), Event("A", {})], None)
    with contextlib.closing(Connection(address)) as connection:
        forged._e_span[0] = 7
        Search(connection, Statements(address)).append(forged.parameters(0, None))
    assert {problem.kind for problem in check_log(database.url("app"), log=log).problems} == {"append"}


def test_a_log_that_nobody_made_needs_the_right_to_make_it(database: Database) -> None:
    with pytest.raises(Forbidden, match="you may not make log 'mine'") as refusal:
        strandline.connect(database.url("app"), log="mine")
    assert "strandline schema --log mine | psql URL" in refusal.value.hint
    with contextlib.closing(strandline.connect(database.url("owner"), log="mine")) as store:
        assert store.append(Event("A", {})).position == 1


def test_a_log_is_not_made_in_a_schema_where_others_may_make_things(database: Database) -> None:
    """Else their functions and operators would be found by ours, and run as the owner of the log."""
    log = f"t{uuid4().hex[:12]}"
    database.server.run(f"grant create on database {database.name} to {database.name}_other")
    database.run_as(
        "other", f"create schema strandline_{log}; grant all on schema strandline_{log} to public"
    )
    for url in (database.url("owner"), database.server.url(database.name)):
        with pytest.raises(Forbidden, match="belongs to another role"):
            strandline.connect(url, log=log)
    with pytest.raises(psycopg.errors.DuplicateSchema):
        database.run_as("owner", schema_script(log=log))
    database.run_as("other", f"drop schema strandline_{log}")
    database.run_as(
        "owner", f"create schema strandline_{log}; grant create on schema strandline_{log} to public"
    )
    with pytest.raises(Forbidden, match="others may create"):
        strandline.connect(database.url("owner"), log=log)
    database.run_as("owner", f"revoke create on schema strandline_{log} from public")
    with strandline.connect(database.url("owner"), log=log) as store:
        assert store.append(Event("Made", {})).position == 1
