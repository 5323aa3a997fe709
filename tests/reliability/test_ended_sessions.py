"""PostgreSQL ends sessions at any moment, and restarts: what was acknowledged is there, everything exactly once."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from places import Place, new_log
from reliability.traffic import Followed, Told, Writer, follow, judge
from strandline import EventStore, StrandlineError
from strandline.testing.postgres import VERSIONS, PostgresServer

WRITERS, TASKS = 3, 3
ROUNDS, LONG_ROUNDS = 12, 150
ROUNDS_PER_RESTART = 6
PATIENCE_SECONDS = 60


@pytest.fixture(scope="module", params=VERSIONS, ids=lambda version: f"postgres{version}")
def server(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    """A server for these tests alone."""
    with PostgresServer.start(version=request.param) as server:
        yield server


class Traffic:
    """Threads and tasks that write and follow, through several stores, until it is over."""

    def __init__(self, place: Place, seed: int) -> None:
        self.told: list[Any] = []
        self._place = place
        self._is_over = threading.Event()
        self._errors: list[BaseException] = []
        works: list[Callable[[EventStore], object]] = [
            Writer(f"{seed} {number}", self.told.append).write for number in range(WRITERS)
        ]
        works += [lambda store: follow(store, "f", self.told.append)] * 2  # they take turns
        self._threads = [threading.Thread(target=self._repeat, args=(work,)) for work in works]
        self._threads.append(threading.Thread(target=lambda: asyncio.run(self._write_tasks(seed))))

    def __enter__(self) -> Traffic:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    def _repeat(self, work: Callable[[EventStore], object]) -> None:
        try:
            with self._place.connect() as store:
                while not self._is_over.is_set():
                    with suppress(StrandlineError):
                        work(store)
        except BaseException as error:
            self._errors.append(error)

    async def _write_tasks(self, seed: int) -> None:
        async def write(writer: Writer) -> None:
            while not self._is_over.is_set():
                with suppress(StrandlineError):
                    await writer.write_awaited(store)

        try:
            async with self._place.connect_async() as store:
                tasks = [Writer(f"{seed} task {task}", self.told.append) for task in range(TASKS)]
                await asyncio.gather(*map(write, tasks))
        except BaseException as error:
            self._errors.append(error)

    def await_more(self, count: int) -> None:
        """Wait until so many more appends were acknowledged: the stores work, whatever happened to them."""
        end = time.monotonic() + PATIENCE_SECONDS
        expected = self._written() + count
        while self._written() < expected:
            assert not self._errors, self._errors
            assert time.monotonic() < end, "nothing is written any more"
            time.sleep(0.005)

    def _written(self) -> int:
        return sum(isinstance(each, Told) and each.kind == "written" for each in list(self.told))


def end_sessions(server: PostgresServer, rng: random.Random) -> int:
    """End some sessions of clients, or all; returns how many."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        pids = [
            pid
            for (pid,) in connection.execute(
                "select pid from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()"
            )
        ]
        ended = rng.sample(pids, rng.randrange(1, len(pids) + 1))
        for pid in ended:
            connection.execute("select pg_terminate_backend(%s)", [pid])
        return len(ended)


def disturb(server: PostgresServer, seed: int, rounds: int) -> None:
    """End sessions and restart the server while everybody works; then judge what is there."""
    rng, place = random.Random(seed), new_log(server.url())
    place.connect().close()
    ended = 0
    with Traffic(place, seed) as traffic:
        for number in range(1, rounds + 1):
            traffic.await_more(rng.randrange(1, 8))
            if number % ROUNDS_PER_RESTART:
                ended += end_sessions(server, rng)
            else:
                server.stop_immediately()
                server.start_again()
        traffic.await_more(5)
    assert ended >= rounds // 2
    judge(place, traffic.told)
    assert any(isinstance(each, Followed) and each.position for each in traffic.told)


def test_whatever_sessions_end_everything_acknowledged_is_there_once(server: PostgresServer) -> None:
    disturb(server, seed=1, rounds=ROUNDS)


@pytest.mark.long
@pytest.mark.parametrize("seed", [2, 3])
def test_however_many_sessions_end_everything_acknowledged_is_there_once(
    server: PostgresServer, seed: int
) -> None:
    disturb(server, seed, rounds=LONG_ROUNDS)
