"""The proxies of the tests do what they say; the one that pools does what pgbouncer does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import pairwise

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from proxies import POOLERS, FaultyProxy, PgBouncer, PoolingProxy, pooler_of
from strandline.testing.postgres import PostgresServer


@pytest.fixture(scope="module")
def server(postgres_server: Callable[[str], PostgresServer]) -> PostgresServer:
    return postgres_server("postgres18")


@pytest.fixture(params=POOLERS)
def pooler(request: pytest.FixtureRequest, server: PostgresServer) -> Iterator[PoolingProxy | PgBouncer]:
    with pooler_of(request.param)(server.url(), size=3) as pooler:
        yield pooler


@pytest.fixture
def faulty(server: PostgresServer) -> Iterator[FaultyProxy]:
    with FaultyProxy(server.url()) as proxy:
        yield proxy


@pytest.fixture
def table(server: PostgresServer) -> Iterator[str]:
    server.run("create table faulty (n int)")
    yield "faulty"
    server.run("drop table faulty")


def connect(url: str) -> psycopg.Connection:
    return psycopg.connect(url, autocommit=True, prepare_threshold=None)


def ask(connection: psycopg.Connection, sql: str) -> object:
    row = connection.execute(sql).fetchone()  # type: ignore[arg-type]
    return None if row is None else row[0]


def pid(connection: psycopg.Connection) -> object:
    return ask(connection, "select pg_backend_pid()")


def test_a_pooler_gives_each_transaction_another_server_process(pooler: PoolingProxy | PgBouncer) -> None:
    with connect(pooler.url) as connection:
        pids = [pid(connection) for _ in range(12)]
        assert all(one != next_one for one, next_one in pairwise(pids))
        assert len({*pids}) == 3
        assert connection.info.backend_pid not in pids


def test_a_pooler_keeps_a_transaction_on_one_server_process(pooler: PoolingProxy | PgBouncer) -> None:
    with connect(pooler.url) as one, connect(pooler.url) as other:
        with one.transaction():
            mine = pid(one)
            for _ in range(5):
                assert pid(other) != mine
                assert pid(one) == mine
        assert pid(one) != mine


def test_a_pooler_serves_more_clients_than_it_has_connections(pooler: PoolingProxy | PgBouncer) -> None:
    clients = [connect(pooler.url) for _ in range(10)]
    assert len({pid(client) for _ in range(3) for client in clients}) == 3
    for client in clients:
        client.close()


def test_a_pooler_loses_what_belongs_to_a_session(pooler: PoolingProxy | PgBouncer) -> None:
    with connect(pooler.url) as connection:
        connection.execute("set work_mem = '77MB'")
        assert ask(connection, "show work_mem") != "77MB"
        connection.execute("listen something")
        connection.execute("notify something")
        connection.execute("notify something")
        assert list(connection.notifies(timeout=0.2, stop_after=1)) == []
        connection.execute("prepare mine as select 1")
        with pytest.raises(psycopg.errors.InvalidSqlStatementName):
            connection.execute("execute mine")
        assert connection.info.transaction_status == TransactionStatus.IDLE


def test_a_pooler_keeps_pipelined_requests_together(pooler: PoolingProxy | PgBouncer) -> None:
    with connect(pooler.url) as connection, connection.pipeline() as pipeline:
        cursors = [connection.execute("select %s::int, pg_backend_pid()", [n]) for n in range(20)]
        pipeline.sync()
        cursors += [connection.execute("select %s::int, pg_backend_pid()", [n]) for n in range(20, 30)]
        rows = [cursor.fetchone() for cursor in cursors]
        assert [row and row[0] for row in rows] == list(range(30))
        assert len({row and row[1] for row in rows[:20]}) == 1


def test_a_pooler_survives_errors_and_transactions_left_halfway(pooler: PoolingProxy | PgBouncer) -> None:
    with connect(pooler.url) as connection:
        for _ in range(5):
            with pytest.raises(psycopg.errors.DivisionByZero):
                connection.execute("select 1 / 0")
        with pytest.raises(psycopg.errors.DivisionByZero), connection.transaction():
            connection.execute("select 1 / 0")
        assert ask(connection, "select 1") == 1
    left = connect(pooler.url)
    left.execute("begin")
    left.execute("select 1")
    left.close()
    with connect(pooler.url) as connection:
        assert [ask(connection, "select now() = statement_timestamp()") for _ in range(6)] == [True] * 6


def test_a_pooler_passes_a_cancellation_on(pooler: PoolingProxy | PgBouncer) -> None:
    with connect(pooler.url) as connection:
        canceller = threading.Timer(0.2, connection.cancel_safe)
        canceller.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute("select pg_sleep(30)")
        canceller.join()
        assert ask(connection, "select 1") == 1


def test_a_pooler_refuses_settings_in_the_startup_message(pooler: PoolingProxy | PgBouncer) -> None:
    with pytest.raises(psycopg.OperationalError, match="unsupported startup parameter"):
        connect(f"{pooler.url}?options=-cwork_mem%3D77MB")


def test_the_faulty_proxy_forwards_until_it_cuts(faulty: FaultyProxy) -> None:
    with connect(faulty.url) as one, connect(faulty.url) as other:
        assert (ask(one, "select 1"), ask(other, "select 2")) == (1, 2)
        faulty.cut()
        for connection in (one, other):
            with pytest.raises(psycopg.OperationalError):
                connection.execute("select 1")
    with connect(faulty.url) as again:
        assert ask(again, "select 3") == 3
    assert faulty.accepted == 3


def test_the_faulty_proxy_refuses_for_a_while(faulty: FaultyProxy) -> None:
    with faulty.refusing(), pytest.raises(psycopg.OperationalError, match="refused"):
        connect(faulty.url)
    with connect(faulty.url) as connection:
        assert ask(connection, "select 1") == 1


def test_the_faulty_proxy_loses_a_request_before_the_server_has_it(faulty: FaultyProxy, table: str) -> None:
    with connect(faulty.url) as connection, connect(faulty.url) as other:
        faulty.lose_request("(42)")
        with pytest.raises(psycopg.OperationalError):
            connection.execute(f"insert into {table} values (42)")
        assert ask(other, f"select count(*) from {table}") == 0
        assert faulty.sprung == 1


@pytest.mark.parametrize(("later", "is_there"), [(0, False), (1, True)])
def test_the_faulty_proxy_loses_an_answer_after_the_server_did_its_work(
    faulty: FaultyProxy, table: str, later: int, is_there: bool
) -> None:
    with connect(faulty.url) as connection, connect(faulty.url) as other:
        faulty.lose_answer("(42)", later=later)
        with pytest.raises(psycopg.OperationalError), connection.transaction():
            connection.execute(f"insert into {table} values (42)")
        assert ask(other, f"select count(*) from {table}") == int(is_there)
        faulty.lose_answer("43")
        with connect(faulty.url) as third, pytest.raises(psycopg.OperationalError):
            third.execute(f"insert into {table} values (%s)", ["43"])
        assert ask(other, f"select count(*) from {table} where n = 43") == 1
        assert faulty.sprung == 2


def test_the_faulty_proxy_refuses_after_it_lost_an_answer(faulty: FaultyProxy, table: str) -> None:
    with connect(faulty.url) as connection, connect(faulty.url) as other:
        faulty.lose_answer("(42)", and_refuse=True)
        with pytest.raises(psycopg.OperationalError):
            connection.execute(f"insert into {table} values (42)")
        with pytest.raises(psycopg.OperationalError, match="refused"):
            connect(faulty.url)
        assert ask(other, f"select count(*) from {table}") == 1
        faulty.accept()
        connect(faulty.url).close()
