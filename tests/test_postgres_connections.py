"""Connections to PostgreSQL that break: appends are written once, reads and subscriptions go on."""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from gates import Gate
from places import Place, new_log
from proxies import FaultyProxy, PoolingProxy
from racing import TAGS, judge_race, race
from strandline import (
    AppendCondition,
    AppendConditionFailed,
    AppendRequest,
    AppendResult,
    Event,
    EventStore,
    Query,
    QueryItem,
    StoreClosed,
    Unavailable,
)
from strandline.testing import violations
from strandline.testing.conformance.kit import in_thread
from strandline.testing.postgres import VERSIONS, PostgresServer
from test_races import in_threads

SERVERS = [f"postgres{version}" for version in VERSIONS]
on_one_server = pytest.mark.parametrize("server", ["postgres18"], indirect=True)  # it takes its time


@pytest.fixture(params=SERVERS)
def server(
    request: pytest.FixtureRequest, postgres_server: Callable[[str], PostgresServer]
) -> PostgresServer:
    return postgres_server(request.param)


@pytest.fixture
def proxy(server: PostgresServer) -> Iterator[FaultyProxy]:
    with FaultyProxy(server.url()) as proxy:
        yield proxy


@pytest.fixture
def direct(server: PostgresServer) -> Place:
    """A new log, past the proxy."""
    return new_log(server.url())


@pytest.fixture
def place(proxy: FaultyProxy, direct: Place) -> Place:
    """The same log, through the proxy."""
    return Place(proxy.url, direct.log)


@pytest.fixture
def store(place: Place) -> Iterator[EventStore]:
    with place.connect() as store:
        store.append(Event("First", {"n": 1}, tags=["first"]))
        yield store


def event(tag: str) -> Event:
    return Event("Sent", {}, tags=[tag])


def is_first(found: Any) -> bool:
    return found.type == "Nothing"


APPENDS: dict[str, Callable[[EventStore, Event], AppendResult]] = {
    "plain": lambda store, event: store.append(event),
    "conditional": lambda store, event: store.append(event, store.read(Query.tag(event.tags[0])).condition),
    "unless_exists": lambda store, event: store.append(event, unless_exists=Query.tag(event.tags[0])),
    "judged_in_python": lambda store, event: store.append(
        event, AppendCondition(Query.of(QueryItem(types=["First"], where=is_first)))
    ),
    "retag": lambda store, event: store.retag([1], add=event.tags),
}


@pytest.mark.parametrize("how", APPENDS)
@pytest.mark.parametrize("later", [0, 1, 2, "request"])
def test_an_append_that_cannot_know_its_outcome_is_written_once(
    store: EventStore, proxy: FaultyProxy, how: str, later: int | str
) -> None:
    if isinstance(later, int):
        proxy.lose_answer("lost:1", later=later)
    else:
        proxy.lose_request("lost:1")
    assert APPENDS[how](store, event("lost:1")) == AppendResult(2, 2, 1)
    assert proxy.sprung == 1
    for position in (3, 4, 5):  # one of these meets the trap that lets some answers through first
        assert store.append(event("later")).position == position
    assert store.count(Query.tag("lost:1")) == 1
    assert violations(store) == []


def test_an_append_sent_again_is_not_refused_by_its_own_first_try(
    store: EventStore, proxy: FaultyProxy
) -> None:
    for number in range(1, 6):
        condition = store.read(Query.tag(f"seat:{number}")).condition
        proxy.lose_answer(f"seat:{number}")
        assert store.append(event(f"seat:{number}"), condition) == AppendResult(number + 1, number + 1, 1)
        with pytest.raises(AppendConditionFailed):
            store.append(event(f"seat:{number}"), condition)
    assert proxy.sprung == 5
    assert store.stats().refused == 5


@pytest.mark.parametrize("is_request_lost", [True, False])
def test_a_batch_sent_again_has_the_outcomes_of_the_first_try(
    store: EventStore, proxy: FaultyProxy, is_request_lost: bool
) -> None:
    known = event("known")
    store.append(known)
    (proxy.lose_request if is_request_lost else proxy.lose_answer)("seat:1")
    free = AppendCondition(Query.tag("seat:1"))
    first, second, third, fourth = store.append_many(
        [
            AppendRequest(event("seat:1"), free),
            AppendRequest(event("seat:1"), free),
            AppendRequest(known),
            AppendRequest([event("a"), event("b")]),
        ]
    )
    assert (first, third, fourth) == (
        AppendResult(3, 3, 1),
        AppendResult(2, 2, 1, duplicate=True),
        AppendResult(4, 5, 2),
    )
    assert isinstance(second, AppendConditionFailed)
    assert second.conflict.position == 3
    assert (store.head(), proxy.sprung) == (5, 1)
    assert store.stats().refused == 1


@pytest.mark.parametrize("is_request_lost", [True, False])
def test_what_another_process_wrote_is_never_taken_for_the_first_try(
    store: EventStore, proxy: FaultyProxy, direct: Place, is_request_lost: bool
) -> None:
    with direct.connect() as other:
        theirs = other.append(event("once:1"))
        (proxy.lose_request if is_request_lost else proxy.lose_answer)("mine")
        mine = Event("Sent", {}, tags=["once:1", "mine"])
        result = store.append(mine, unless_exists=Query.tag("once:1"))
        assert proxy.sprung == 1
        assert result == AppendResult(theirs.first, theirs.last, 1, duplicate=True)
        assert not store.exists(Query.tag("mine"))


def test_an_append_that_is_cut_off_while_it_waits_for_its_turn_is_written_once(
    store: EventStore, proxy: FaultyProxy, direct: Place
) -> None:
    with direct.connect() as other:
        gate = Gate("First")
        held = in_thread(lambda: other.append(event("x"), gate.condition))
        assert gate.is_reached.wait(30)
        waiting = in_thread(lambda: store.append(event("lost:1")))
        for _ in range(3):
            time.sleep(0.1)
            proxy.cut()
        await_one_waiting(direct)
        gate.is_open.set()
        assert held().position == 2
        assert waiting() == AppendResult(3, 3, 1)
        assert other.head() == 3


def await_one_waiting(place: Place) -> None:
    """Wait until one process of the server waits for the log: those of broken connections were ended."""
    asked = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like %s"
    with psycopg.connect(str(place.url), autocommit=True) as connection:
        for _ in range(1_000):
            answer = connection.execute(asked, [f"%strandline_{place.log}%"]).fetchone()
            if answer == (1,):
                return
            time.sleep(0.01)
    pytest.fail(f"{answer} processes of the server wait for the log")


QUESTIONS: list[Callable[[EventStore], Any]] = [
    lambda store: store.head(),
    lambda store: [found.position for found in store.read(Query.tag("first"))],
    lambda store: store.exists(Query.tag("first")),
    lambda store: store.count(),
    lambda store: store.stats().head,
    lambda store: [append.first for append in store.appends()],
    lambda store: next(store.subscribe()).position,
]


def test_reads_connect_again(store: EventStore, proxy: FaultyProxy) -> None:
    before = [question(store) for question in QUESTIONS]
    accepted = proxy.accepted
    for question, answer in zip(QUESTIONS, before, strict=True):
        proxy.cut()
        assert question(store) == answer
    assert proxy.accepted >= accepted + len(QUESTIONS)


def test_a_read_goes_on_where_its_connection_broke(store: EventStore, proxy: FaultyProxy) -> None:
    store.append([event("many") for _ in range(6_000)])
    read = store.read(Query.tag("many"))
    seen = []
    for found in read:
        if found.position % 1_000 == 0:
            proxy.cut()
        seen.append(found.position)
    assert seen == list(range(2, 6_002))


def test_processes_of_the_server_that_are_terminated_are_replaced(
    server: PostgresServer, direct: Place
) -> None:
    with direct.connect() as store, store.subscribe() as subscription:
        for number in range(1, 6):
            assert store.append(event("x")).position == number
            assert next(subscription).position == number
            server.run(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where backend_type = 'client backend' and pid <> pg_backend_pid()"
            )
            assert store.head() == store.count() == number
        assert violations(store) == []


def test_a_server_that_is_away_for_a_moment_is_waited_for(store: EventStore, proxy: FaultyProxy) -> None:
    with proxy.refusing():
        append = in_thread(lambda: store.append(event("x")))
        count = in_thread(store.count)
        time.sleep(0.4)
    assert append() == AppendResult(2, 2, 1)
    assert count() in (1, 2)
    assert store.head() == 2


@on_one_server
def test_a_server_that_stays_away_is_unavailable_and_nothing_was_written(
    store: EventStore, place: Place, direct: Place, proxy: FaultyProxy
) -> None:
    with place.connect() as unused:
        sent = event("x")
        calls: list[Callable[[], Any]] = [
            lambda: store.append(sent),
            lambda: unused.append(event("y")),
            store.head,
            place.connect,
        ]
        with proxy.refusing():
            waiting = [in_thread(call) for call in calls]
            errors = []
            for wait in waiting:
                with pytest.raises(Unavailable) as caught:
                    wait()
                errors.append(caught.value)
        # The first was sent over a connection that broke; of the others nothing was ever sent.
        assert [error.written for error in errors] == [None, False, False, False]
        with direct.connect() as other:
            assert other.head() == 1
        assert store.append(sent) == AppendResult(2, 2, 1)


@on_one_server
def test_a_server_that_stays_away_after_it_wrote_leaves_the_outcome_unknown(
    store: EventStore, direct: Place, proxy: FaultyProxy
) -> None:
    sent = event("lost:1")
    proxy.lose_answer("lost:1", and_refuse=True)
    with pytest.raises(Unavailable) as caught:
        store.append(sent)
    assert caught.value.written is None
    with direct.connect() as other:
        assert other.count(Query.tag("lost:1")) == 1
    proxy.accept()
    assert store.append(sent) == AppendResult(2, 2, 1, duplicate=True)


def test_a_role_that_is_locked_out_after_it_wrote_leaves_the_outcome_unknown(
    server: PostgresServer, proxy: FaultyProxy, direct: Place
) -> None:
    role = f"r{uuid4().hex[:12]}"
    server.run(f"create role {role} superuser login")
    place = Place(proxy.url.replace("postgres@", f"{role}@", 1), direct.log)
    sent = event("x")
    with place.connect() as store:
        store.append(event("y"))
        server.run(f"alter role {role} nologin")
        proxy.lose_answer("x")
        with pytest.raises(Unavailable, match="not permitted to log in") as caught:
            store.append(sent)
        assert caught.value.written is None
        server.run(f"alter role {role} login")
        assert store.append(sent) == AppendResult(2, 2, 1, duplicate=True)


def test_a_subscription_goes_on_when_its_connections_are_cut(
    store: EventStore, direct: Place, proxy: FaultyProxy
) -> None:
    with direct.connect() as other, store.subscribe(Query.tag("x")) as subscription:
        for number in range(2, 12):
            waiting = in_thread(lambda: next(subscription).position)
            proxy.cut()
            if number % 2:
                time.sleep(0.03)
            assert other.append(event("x")).position == number
            assert waiting() == number


def test_an_async_subscription_goes_on_when_its_connections_are_cut(
    place: Place, direct: Place, proxy: FaultyProxy
) -> None:
    async def use() -> list[int]:
        async with place.connect_async() as store, direct.connect_async() as other:
            subscription = aiter(store.subscribe())
            seen = []
            for _ in range(10):
                waiting = asyncio.ensure_future(anext(subscription))
                await asyncio.to_thread(proxy.cut)
                await other.append(event("x"))
                seen.append((await waiting).position)
            await asyncio.to_thread(proxy.cut)
            await store.append(event("x"))
            return seen

    assert asyncio.run(asyncio.wait_for(use(), 60)) == list(range(1, 11))


def race_with_cuts(place: Place, proxy: FaultyProxy, direct: Place) -> None:
    """Between two faults somebody gets an answer, so that the race ends on a slow machine too."""
    is_over, is_answered = threading.Event(), threading.Event()
    rng = random.Random(1)
    faults: list[Callable[[], None]] = [
        proxy.cut,
        lambda: proxy.lose_request(rng.choice(TAGS)),
        lambda: proxy.lose_answer(rng.choice(TAGS), later=rng.randrange(4)),
    ]

    def cut() -> int:
        cuts = 0
        while not is_over.wait(0.05 + rng.random() * 0.2):
            if is_answered.is_set():
                is_answered.clear()
                rng.choice(faults)()
                cuts += 1
        return cuts

    def note_answers(store: EventStore) -> None:
        append = store.append

        def noting(*arguments: Any) -> AppendResult:
            try:
                return append(*arguments)
            finally:
                is_answered.set()

        store.append = noting  # type: ignore[method-assign]

    with place.connect() as store, direct.connect() as other:
        note_answers(store)
        cutter = in_thread(cut)
        try:
            told = in_threads(
                [
                    *(lambda seed=seed: race(store, seed, 80) for seed in range(4)),
                    *(lambda seed=seed: race(other, seed, 80) for seed in (4, 5)),
                ]
            )
        finally:
            is_over.set()
        assert cutter() > 3
        judge_race(other, told)
        assert violations(other) == []


def test_racers_whose_connections_are_cut_all_the_time_decide_exactly(
    place: Place, proxy: FaultyProxy, direct: Place
) -> None:
    race_with_cuts(place, proxy, direct)


@on_one_server
def test_racers_behind_a_pooler_whose_connections_are_cut_decide_exactly(
    server: PostgresServer, direct: Place
) -> None:
    with PoolingProxy(server.url()) as pooler, FaultyProxy(pooler.url) as proxy:
        race_with_cuts(Place(proxy.url, direct.log), proxy, direct)


def test_a_forked_process_leaves_the_connections_to_its_parent(store: EventStore) -> None:
    child = os.fork()
    if child == 0:
        try:
            store.head()
        except StoreClosed:
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert store.append(event("x")).position == store.head() == 2


@on_one_server
def test_a_session_that_keeps_the_lock_is_named_after_a_while(server: PostgresServer, direct: Place) -> None:
    with direct.connect(lock_timeout=0.3) as store, psycopg.connect(server.url()) as other:
        store.append(event("x"))
        other.execute("set application_name = 'sleeper'")
        other.execute(f"select from strandline_{direct.log}.log for update")
        with pytest.raises(Unavailable) as caught:
            store.append(event("x"))
        assert f"process {other.info.backend_pid} of the server (sleeper" in str(caught.value)
        assert "for too long" in str(caught.value)
        assert "here 0.3 s" in caught.value.hint
        assert f"pg_terminate_backend({other.info.backend_pid})" in caught.value.hint
        assert caught.value.written is False
        assert store.head() == 1
        other.rollback()
        assert store.append(event("x")).position == 2
        assert store.engine.rows("show lock_timeout") == [("0",)]
