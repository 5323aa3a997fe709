"""Clients in several processes, and a server that is stopped, killed and started again beneath them."""

from __future__ import annotations

import random
import threading
import time

import pytest

from places import Place
from racing import judge_race, race
from server_process import server_process
from strandline import (
    AppendCondition,
    AppendConditionFailed,
    AppendResult,
    Event,
    Query,
    QueryItem,
    Unavailable,
)
from strandline.engine.maintenance import check_log
from strandline.testing import violations
from test_races import RACING, await_ready, finish, go, in_threads, start

ON_ONE_OF_EACH = pytest.mark.parametrize(
    "engine", ["sqlite", pytest.param("postgres18", marks=pytest.mark.long)]
)


@ON_ONE_OF_EACH
def test_processes_that_race_over_http_decide_exactly(engine, new_place) -> None:
    kept: Place = new_place(engine)
    with server_process(kept) as server, server.place.connect() as store, kept.connect() as beside:
        workers = [start(RACING, *server.place.arguments, str(seed), "60") for seed in range(3)]
        await_ready(workers)
        for worker in workers:
            go(worker)
            time.sleep(0.01)
        told = in_threads(
            [
                *(lambda seed=seed: race(store, seed, 30) for seed in (10, 11)),
                lambda: race(beside, 12, 30),  # which goes past the server
            ]
        )
        told += [finish(worker) for worker in workers]
        written, refused = judge_race(store, told)
        assert violations(store) == []
    assert check_log(kept.url, **kept.options).problems == []
    assert written > 50
    assert refused > 10


@ON_ONE_OF_EACH
def test_nothing_is_lost_or_doubled_when_the_server_is_killed(engine, new_place) -> None:
    """Eight threads decide while the server is killed and stopped; unknown outcomes are resolved by the same ids."""
    kept: Place = new_place(engine)
    accepted: list[tuple[Event, AppendResult]] = []
    refused: list[Event] = []
    is_over = threading.Event()

    def decide(thread: int) -> None:
        rng = random.Random(thread)
        while not is_over.is_set():
            query = Query.of(QueryItem(tags=[f"k:{rng.randrange(4)}"]))
            event = Event("A", {"by": thread}, tags=[f"k:{rng.randrange(4)}"])
            condition = patiently(lambda query=query: store.read(query).condition)
            try:
                accepted.append((event, patiently(lambda: store.append(event, condition))))  # noqa: B023
            except AppendConditionFailed:
                refused.append(event)

    with server_process(kept) as server, server.place.connect() as store:
        threads = [threading.Thread(target=decide, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for end in (server.kill, server.stop, server.kill):
            before = len(accepted)
            wait_until(lambda before=before: len(accepted) > before + 20)
            end()
            server.start_again()
        before = len(accepted)
        wait_until(lambda: len(accepted) > before + 20)
        is_over.set()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        positions = {event.id: event.position for event in store.read()}
        assert sorted(result.position for _, result in accepted) == list(range(1, store.head() + 1))
        assert all(positions[event.id] == result.position for event, result in accepted)
        assert not {event.id for event in refused} & positions.keys()
        assert violations(store) == []


def test_a_subscription_goes_on_over_a_restart_without_gap_or_repetition(new_place) -> None:
    kept: Place = new_place("sqlite")
    with server_process(kept) as server, server.place.connect() as store:
        subscription = store.subscribe(Query.tag("x"))
        seen: list[int] = []

        def follow() -> None:
            while len(seen) < 60:
                seen.append(patiently(lambda: next(subscription)).position)

        reader = threading.Thread(target=follow)
        reader.start()
        for number in range(60):
            patiently(lambda: store.append(Event("A", {}, tags=["x"])))
            if number in {20, 40}:
                wait_until(lambda number=number: len(seen) > number - 10)
                (server.kill if number == 20 else server.stop)()
                server.start_again()
        reader.join(60)
        assert seen == sorted(set(seen))
        assert seen == [event.position for event in store.read(Query.tag("x"))][:60]
        subscription.stop()


def test_an_append_waits_for_a_server_that_starts_again(new_place) -> None:
    kept: Place = new_place("sqlite")
    with server_process(kept) as server, server.place.connect() as store:
        store.append(Event("A", {}))
        store.engine._client.patience = 60.0  # of a machine that is busy
        server.kill()
        starting = threading.Timer(0.3, server.start_again)
        starting.start()
        assert store.append(Event("B", {}), AppendCondition(Query.types("B"))) == AppendResult(2, 2, 1)
        starting.join()


def patiently(ask):
    """The answer, however often the server cannot give it."""
    while True:
        try:
            return ask()
        except Unavailable:
            continue


def wait_until(is_so) -> None:
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)
