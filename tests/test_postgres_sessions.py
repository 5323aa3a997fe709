"""Whatever a session is told by others, role, environment or URL: the store means the same."""

from __future__ import annotations

import contextlib
import threading
import time
from uuid import uuid4

import pytest

import strandline
from places import Place
from strandline import (
    AppendCondition,
    AppendConditionFailed,
    AppendRequest,
    Event,
    InvalidInput,
    Query,
    QueryItem,
    Unavailable,
)
from strandline.engine.postgres import batch as batches
from strandline.engine.postgres.address import Address
from strandline.engine.postgres.connection import Connection
from strandline.engine.postgres.search import Search, Statements

ZURICH = "city:Z\u00fcrich"


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII", "WIN1252"])
def test_every_client_writes_the_same_names(
    postgres: Place, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with postgres.connect() as store:
        store.append(Event("Taken", {}, tags=[ZURICH], stream=ZURICH), AppendCondition(Query.tag(ZURICH)))
        monkeypatch.setenv("PGCLIENTENCODING", encoding)
        other = Place(f"{postgres.url}?client_encoding={encoding}", postgres.log)
        for place in (postgres, other):
            with place.connect() as same:
                assert [event.tags for event in same.read(Query.stream(ZURICH))] == [(ZURICH,)]
                with pytest.raises(AppendConditionFailed):
                    same.append(Event("Taken", {}, tags=[ZURICH]), AppendCondition(Query.tag(ZURICH)))


def test_a_connect_that_fails_leaves_no_thread(postgres: Place) -> None:
    before = threading.enumerate()
    for url in (str(postgres.url), "postgresql://127.0.0.1:1/nowhere"):
        with pytest.raises((strandline.NotFound, Unavailable)):
            strandline.connect(url, log=f"{postgres.log}-other", create=False)
    assert threading.enumerate() == before


def test_statements_deallocated_before_a_judgement_in_python_fail_one_append_only(postgres: Place) -> None:
    condition = AppendCondition(Query.of(QueryItem(types=["B"], where=lambda event: True)))
    with postgres.connect() as store:
        store.append(Event("A", {}), condition)
        store.engine._connection.run("deallocate all")
        with pytest.raises(strandline.StrandlineError, match="prepared statement"):
            store.append(Event("A", {}), condition)
        assert store.append(Event("A", {}), condition).position == 2


def test_statements_that_somebody_deallocated_are_prepared_again(postgres: Place) -> None:
    with postgres.connect() as store:
        store.append(Event("A", {}))
        assert store.engine._connection is not None
        store.engine._connection.run("deallocate all")
        assert store.append(Event("B", {})).position == 2
        store.engine._ask(lambda search: search.rows.__self__.run("deallocate all"))
        assert [event.type for event in store.read()] == ["A", "B"]


@pytest.mark.parametrize("setting", ["idle_in_transaction_session_timeout", "transaction_timeout"])
def test_a_transaction_that_takes_longer_than_the_server_allows_can_be_sent_again(
    postgres: Place, setting: str
) -> None:
    with postgres.connect() as store:
        version = store.engine._ask(lambda search: search.rows.__self__.rows("show server_version_num"))
    if setting == "transaction_timeout" and int(version[0][0]) < 170000:
        setting = "idle_in_transaction_session_timeout"  # there is no other before version 17
    is_slow = True

    def slow(_event: object) -> bool:
        time.sleep(1 if is_slow else 0)
        return False

    limited = Place(f"{postgres.url}?options=-c%20{setting}%3D500", postgres.log)
    with limited.connect() as store:
        store.append(Event("A", {}))
        event = Event("B", {})
        condition = AppendCondition(Query.of(QueryItem(where=slow)))
        with pytest.raises(Unavailable) as caught:
            store.append(event, condition)
        assert caught.value.written is False
        is_slow = False
        assert store.append(event, condition).position == 2


def test_a_time_that_nobody_can_read_is_refused(postgres: Place) -> None:
    with postgres.connect() as store:
        empty = batches.Batch(record_conditions=False)
        with pytest.raises(strandline.StrandlineError, match="years 1 and 9999"):
            store.engine._ask(lambda search: search.append(empty.parameters(0, 2**62)))
        assert store.append(Event("A", {})).position == 1


def test_requests_that_get_in_each_others_way_are_judged_as_one_after_another(
    postgres: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = []
    for number in range(60):
        tags = [f"hot:{number % 2}", f"own:{number}"]
        condition = AppendCondition(Query.tag(f"hot:{number % 2}"), number // 3)
        requests.append(AppendRequest(Event("A", {"n": number}, tags=tags), condition))
    twice = Event("A", {}, id=uuid4())
    requests.insert(20, AppendRequest([twice, twice]))
    requests.insert(40, AppendRequest(Event("A", {}), AppendCondition(Query.all(), 1_000)))
    monkeypatch.setattr(batches, "MAX_RIVALS", 7)
    with postgres.connect() as store, strandline.connect("memory:") as model:
        expected, found = model.append_many(requests), store.append_many(requests)
        assert [str(outcome) for outcome in found] == [str(outcome) for outcome in expected]
        assert store.head() == model.head() > 0
        assert any(isinstance(outcome, AppendConditionFailed) for outcome in found)
        assert any(isinstance(outcome, InvalidInput) for outcome in found)


def test_news_is_not_flushed_and_leaves_the_session_as_it_was(postgres: Place) -> None:
    address = Address(str(postgres.url), str(postgres.log))
    postgres.connect().close()
    with contextlib.closing(Connection(address)) as connection:
        search = Search(connection, Statements(address))
        connection.run("begin")
        search.notify(address.schema)
        assert connection.rows("show synchronous_commit") == [("off",)]
        connection.run("commit")
        assert connection.rows("show synchronous_commit") == [("on",)]
