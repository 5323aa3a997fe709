"""What the one writing function does for whoever calls it: isolation, durability, news."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

import strandline
from places import Place
from strandline import Event
from strandline.engine.postgres.address import Address
from strandline.engine.postgres.batch import Batch
from strandline.engine.postgres.connection import Connection
from strandline.engine.postgres.search import Search, Statements


@pytest.fixture
def address(postgres: Place) -> Address:
    strandline.connect(postgres.url, **postgres.options).close()
    return Address(str(postgres.url), **postgres.options)


@pytest.fixture
def connection(address: Address) -> Iterator[Connection]:
    connection = Connection(address)
    yield connection
    connection.close()


def call(connection: Connection, address: Address) -> None:
    batch = Batch(record_conditions=True)
    batch.add_events([Event("Called", {})], None)
    Search(connection, Statements(address)).append(batch.parameters(0, None))


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_it_refuses_to_judge_by_an_old_snapshot(connection: Connection, address: Address, level: str) -> None:
    connection.run(f"begin isolation level {level}")
    with pytest.raises(psycopg.errors.InvalidTransactionState, match="read committed"):
        call(connection, address)
    connection.run("rollback")


@pytest.mark.parametrize(
    ("session", "appending"),
    [("off", "on"), ("local", "on"), ("remote_write", "on"), ("on", "on"), ("remote_apply", "remote_apply")],
)
def test_an_append_waits_for_the_disk_whatever_the_session_says(
    connection: Connection, address: Address, session: str, appending: str
) -> None:
    connection.run(f"set synchronous_commit = {session}")
    connection.run("begin")
    call(connection, address)
    assert connection.rows("select current_setting('synchronous_commit')") == [(appending,)]
    connection.run("commit")
    assert connection.rows("select current_setting('synchronous_commit')") == [(session,)]


def test_listeners_are_told_after_the_commit(postgres: Place, address: Address) -> None:
    with (
        psycopg.connect(str(postgres.url), autocommit=True) as listener,
        strandline.connect(postgres.url, **postgres.options) as store,
    ):
        listener.execute(f"listen {address.identifier}")
        result = store.append(Event("News", {}))
        (news,) = listener.notifies(timeout=20, stop_after=1)
        assert news.channel == address.schema
        ((head,),) = listener.execute(f"select max(position) from {address.identifier}.event")
        assert head == result.position
