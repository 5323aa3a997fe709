"""Behind a pooler that gives each transaction another connection, a store behaves like any other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from places import Place, new_log
from proxies import POOLERS, PgBouncer, PoolingProxy, pooler_of
from racing import judge_race, race
from strandline import AppendCondition, Event, Query, Unavailable
from strandline.testing import violations
from strandline.testing.conformance.asynchronous import Asynchronous
from strandline.testing.conformance.batches import Batches
from strandline.testing.conformance.idempotency import Idempotency
from strandline.testing.conformance.kit import StoreFixtures
from strandline.testing.conformance.lifecycle import Lifecycle
from strandline.testing.conformance.retag_conflicts import RetagConflicts
from strandline.testing.conformance.subscriptions import Subscriptions
from strandline.testing.postgres import PostgresServer
from test_races import in_threads


@pytest.fixture(scope="module")
def server(postgres_server: Callable[[str], PostgresServer]) -> PostgresServer:
    return postgres_server("postgres18")


@pytest.fixture(params=POOLERS, scope="module")
def pooler(request: pytest.FixtureRequest, server: PostgresServer) -> Iterator[PoolingProxy | PgBouncer]:
    with pooler_of(request.param)(server.url()) as pooler:
        yield pooler


@pytest.fixture
def place(pooler: PoolingProxy | PgBouncer) -> Place:
    """A new log, behind the pooler."""
    return new_log(pooler.url)


class TestBehindAPooler(
    Asynchronous, Batches, Idempotency, Lifecycle, RetagConflicts, Subscriptions, StoreFixtures
):
    """The parts of the suite that keep connections busy: threads, tasks, subscriptions, several handles."""

    @pytest.fixture
    def url(self, place: Place) -> object:
        return place.url

    @pytest.fixture
    def options(self, place: Place) -> dict[str, Any]:
        return place.options


def test_racers_behind_a_pooler_decide_exactly(place: Place, server: PostgresServer) -> None:
    with place.connect() as one, place.connect() as two, Place(server.url(), place.log).connect() as direct:
        stores = [one, two, direct, one, two, direct, one, two]
        told = in_threads(
            [lambda store=store, seed=seed: race(store, seed, 40) for seed, store in enumerate(stores)]
        )
        written, refused = judge_race(direct, told)
        assert violations(direct) == []
    assert written > 50
    assert refused > 10


def test_a_subscription_behind_a_pooler_sees_what_others_write_past_it(
    place: Place, server: PostgresServer
) -> None:
    with place.connect() as store, Place(server.url(), place.log).connect() as other:
        subscription = store.subscribe(Query.tag("x"))
        for number in range(1, 21):
            assert other.append(Event("A", {}, tags=["x"])).position == number
            assert next(subscription).position == number


def test_a_subscription_past_a_pooler_sees_what_others_write_behind_it(
    place: Place, server: PostgresServer
) -> None:
    with place.connect() as store, Place(server.url(), place.log).connect() as other:
        subscription = other.subscribe(Query.tag("x"))
        for number in range(1, 21):
            assert store.append(Event("A", {}, tags=["x"])).position == number
            assert next(subscription).position == number


def test_connections_of_a_pooler_that_are_terminated_are_survived(
    place: Place, server: PostgresServer
) -> None:
    with place.connect() as store, store.subscribe() as subscription:
        for number in range(1, 6):
            assert store.append(Event("A", {}, tags=["x"])).position == number
            assert next(subscription).position == number
            server.run(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where backend_type = 'client backend' and pid <> pg_backend_pid()"
            )
            assert store.head() == store.count() == number
        assert violations(store) == []


def test_a_limit_of_time_holds_behind_a_pooler_and_leaves_nothing_there(
    place: Place, server: PostgresServer
) -> None:
    both = Query.tag("even", "odd")
    with Place(server.url(), place.log).connect() as direct:
        for _ in range(6):
            direct.append([Event("A", {}, tags=["even" if n % 2 else "odd"]) for n in range(5_000)])
    with place.connect(read_seconds=0.005) as store, pytest.raises(Unavailable, match="took longer than"):
        store.count(both)
    with place.connect(read_seconds=30) as store:
        assert (store.count(both), store.head()) == (0, 30_000)
        assert store.check(AppendCondition(both, after=0)).holds
        assert store.engine.rows("show statement_timeout") == [("30s",)]
        assert len(list(store.read(Query.tag("even"), limit=10))) == 10
    with place.connect() as store:
        assert store.engine.rows("show statement_timeout") == [("0",)]
