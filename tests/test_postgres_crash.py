"""A PostgreSQL server that crashes while it is written to keeps what it acknowledged, and nothing by halves."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from crash import Victim
from places import Place, new_log
from strandline import (
    AppendConditionFailed,
    AppendResult,
    Event,
    EventStore,
    Query,
    Unavailable,
)
from strandline.engine.maintenance import check_log
from strandline.testing import violations
from strandline.testing.conformance.kit import PATIENCE_SECONDS, in_thread
from strandline.testing.postgres import VERSIONS, PostgresServer

CRASHES = 4
WRITERS = 4
DOWN_SECONDS = 0.2


@pytest.fixture(scope="module", params=VERSIONS, ids=lambda version: f"postgres{version}")
def server(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    """A server for these tests alone, for no other would like its crashes."""
    with PostgresServer.start(version=request.param) as server:
        yield server


class Told(NamedTuple):
    """What a writer was told about one append."""

    events: list[Event]
    result: AppendResult | None
    written: bool | None


def write(store: EventStore, seed: int, is_over: threading.Event) -> list[Told]:
    """Append until it is over; an outcome that is unknown is sometimes left so, sometimes asked for again."""
    rng = random.Random(seed)
    told: list[Told] = []
    while not is_over.is_set():
        size = rng.choice([1, 1, 2, 40])
        events = [Event("Sent", {"n": n}, tags=[f"k:{rng.randrange(5)}"]) for n in range(size)]
        try:
            condition = None
            if rng.random() < 0.5:
                condition = store.read(Query.tag(f"k:{rng.randrange(5)}"), limit=1).condition
            told.append(Told(events, store.append(events, condition), True))
        except AppendConditionFailed:
            told.append(Told(events, None, False))
        except Unavailable as error:
            told.append(Told(events, None, error.written))
    return told


def judge(store: EventStore, told: list[Told]) -> int:
    """Acknowledged appends are where they were said to be, the others whole or not at all; returns how many."""
    places = {found.id: found.position for found in store.read()}
    acknowledged = 0
    for events, result, written in told:
        found = [places[event.id] for event in events if event.id in places]
        if result is not None:
            assert found == list(range(result.first, result.last + 1)), "an acknowledged append is lost"
            acknowledged += 1
        elif written is False:
            assert found == [], "an append that was refused is there"
        else:
            assert len(found) in (0, len(events)), "an append is half there"
    assert sorted(places.values()) == list(range(1, len(places) + 1))
    assert {event.id for one in told for event in one.events} >= places.keys()
    return acknowledged


def await_head(store: EventStore, head: int) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while store.head() < head:
        assert time.monotonic() < end, "nobody writes"
        time.sleep(0.01)


def test_a_server_that_crashes_again_and_again_keeps_what_it_acknowledged(server: PostgresServer) -> None:
    place, is_over = new_log(server.url()), threading.Event()
    with place.connect() as one, place.connect() as other:
        writers = [
            in_thread(lambda seed=seed: write((one, other)[seed % 2], seed, is_over))  # type: ignore[misc]
            for seed in range(WRITERS)
        ]
        for _ in range(CRASHES):
            await_head(one, one.head() + 50)
            server.stop_immediately()
            time.sleep(DOWN_SECONDS)
            server.start_again()
        is_over.set()
        told = [entry for writer in writers for entry in writer()]
        assert judge(one, told) > CRASHES
        assert violations(one) == []
    assert check_log(place.url, **place.options).problems == []


def test_a_subscription_goes_on_after_the_server_crashed(server: PostgresServer) -> None:
    with new_log(server.url()).connect() as store, store.subscribe() as subscription:
        for number in range(1, 6):
            waiting = in_thread(lambda: next(subscription).position)
            (server.stop_immediately if number % 2 else server.stop)()
            server.start_again()
            assert store.append(Event("A", {})).position == number
            assert waiting() == number


@pytest.mark.parametrize("setting", ["off", "local", "remote_write"])
def test_what_is_acknowledged_survives_a_crash_whatever_the_session_says(
    server: PostgresServer, setting: str
) -> None:
    url = f"{server.url()}?options=-csynchronous_commit%3D{setting}"
    with new_log(url).connect() as store:
        for number in range(1, 21):
            assert store.append(Event("A", {})).position == number
        server.stop_immediately()
        server.start_again()
        assert store.head() == 20


def test_writers_that_are_killed_leave_nothing_half_done_beside_a_server_that_crashes(
    server: PostgresServer,
) -> None:
    victim = Victim(new_log(server.url()))
    for _ in range(3):
        process: Any = victim.start_one()
        assert process.stdout.readline() == b"open\n"
        time.sleep(0.1)
        server.stop_immediately()
        victim.end(process)
        server.start_again()
        victim.judge()
    assert victim.kills == 3


def test_a_log_whose_maker_is_killed_is_made_by_the_next(server: PostgresServer) -> None:
    for number in range(6):
        server.run(f"create database fresh{number}")
        victim = Victim(Place(server.url(f"fresh{number}"), "log"), seed=number)
        process: Any = victim.start_one()
        if number % 2:
            asked = f"select count(*) from pg_stat_activity where application_name = '{victim.name}'"
            while server.run(asked) == ["0"] and process.poll() is None:
                pass
        victim.end(process)
        victim.judge()
