"""Reads that an event loop waits for by itself: many at once, cancelled, cut off, in one loop after another."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import psycopg
import pytest

from places import Place, new_log
from proxies import FaultyProxy
from strandline import AsyncEventStore, Event, Query, QueryItem, StoreClosed, Unavailable
from strandline.engine.postgres import PostgresEngine, awaiting, connection
from strandline.engine.postgres.readers import READERS
from strandline.testing.postgres import PostgresServer

FIRST = Query.tag("first")
NEWS_SECONDS = 0.1  # after an append a connection tells others of it; while none is idle, threads read


@pytest.fixture
def server(postgres_server: Callable[[str], PostgresServer]) -> PostgresServer:
    return postgres_server("postgres18")


@pytest.fixture
def proxy(server: PostgresServer) -> Iterator[FaultyProxy]:
    with FaultyProxy(server.url()) as proxy:
        yield proxy


@pytest.fixture
def place(server: PostgresServer, proxy: FaultyProxy) -> Place:
    return Place(proxy.url, new_log(server.url()).log)


@pytest.fixture
def in_threads(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The queries that were read in a thread."""
    asked: list[object] = []
    in_thread = PostgresEngine.read_page

    def read_page(self: PostgresEngine, query: Query, *rest: Any) -> Any:
        asked.append(query)
        return in_thread(self, query, *rest)

    monkeypatch.setattr(PostgresEngine, "read_page", read_page)
    return asked


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many reads each call of the event loop had."""
    counts: list[int] = []
    call_awaited = connection.Connection.call_awaited

    def counted(self: connection.Connection, statement: str, values: Any) -> Any:
        counts.append(len(values))
        return call_awaited(self, statement, values)

    monkeypatch.setattr(connection.Connection, "call_awaited", counted)
    return counts


def run(place: Place, use: Callable[[AsyncEventStore], Awaitable[None]]) -> None:
    async def main() -> None:
        async with place.connect_async() as store:
            await store.append(Event("First", {}, tags=["first"]))
            await asyncio.sleep(NEWS_SECONDS)
            await use(store)

    asyncio.run(asyncio.wait_for(main(), 60))


async def positions(store: AsyncEventStore, query: Query = FIRST) -> list[int]:
    return [event.position async for event in store.read(query)]


def test_many_at_once_need_neither_threads_nor_more_connections(
    place: Place, in_threads: list[object]
) -> None:
    async def use(store: AsyncEventStore) -> None:
        found = await asyncio.gather(*[positions(store) for _ in range(200)])
        assert found == [[1]] * 200
        engine = store.store.engine
        assert isinstance(engine, PostgresEngine)
        assert len(engine._readers.connections) <= READERS
        in_threads.clear()
        for _ in range(20):
            assert await positions(store) == [1]
        assert in_threads == []

    run(place, use)


def test_those_who_wait_go_together_and_each_gets_its_own(
    place: Place, in_threads: list[object], calls: list[int]
) -> None:
    async def use(store: AsyncEventStore) -> None:
        await store.append([Event("Many", {}, tags=[f"one-of:{number % 50}"]) for number in range(150)])
        await asyncio.sleep(NEWS_SECONDS)
        asked = [positions(store, Query.tag(f"one-of:{number}")) for number in range(60)]
        there = [[number + 2, number + 52, number + 102] for number in range(50)]
        assert await asyncio.gather(*asked) == [*there, *[[]] * 10]
        assert len(in_threads) < awaiting.CALLS_AT_ONCE  # those who make the other connections
        assert sum(calls) == 60 - len(in_threads)
        assert max(calls) == awaiting.READS_IN_CALL

    run(place, use)


def test_long_pages_and_callables_are_read_in_threads(place: Place, in_threads: list[object]) -> None:
    async def use(store: AsyncEventStore) -> None:
        await store.append([Event("Many", {}, tags=["many"]) for _ in range(awaiting.MOST_EVENTS + 10)])
        await asyncio.sleep(NEWS_SECONDS)
        in_threads.clear()
        assert len(await positions(store, Query.tag("many"))) == awaiting.MOST_EVENTS + 10
        assert len(in_threads) == 1
        assert await positions(store, Query.of(QueryItem(tags=["first"], where=lambda event: True))) == [1]
        assert len(in_threads) == 2

    run(place, use)


def test_questions_may_be_longer_than_what_a_socket_takes(place: Place, in_threads: list[object]) -> None:
    waited: list[int] = []

    async def use(store: AsyncEventStore) -> None:
        engine = store.store.engine
        assert isinstance(engine, PostgresEngine)
        for reading in engine._readers.connections:
            with socket.socket(fileno=os.dup(reading.raw.fileno())) as own:
                own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        loop = asyncio.get_running_loop()
        add_writer = loop.add_writer
        loop.add_writer = lambda *given: (waited.append(1), add_writer(*given))[1]  # type: ignore[method-assign]
        long = Query([QueryItem(tags=[f"{number}".rjust(250, "x")]) for number in range(8_000)])
        assert await positions(store, long | FIRST) == [1]
        # With answers that are long, too: the server would wait for us to take the first before it hears the last.
        await store.append([Event("Large", b"x" * 50_000, tags=["large"]) for _ in range(100)])
        await asyncio.sleep(NEWS_SECONDS)
        asked = [positions(store, long | Query.tag("large")) for _ in range(awaiting.CALLS_AT_ONCE * 3)]
        assert await asyncio.gather(*asked) == [[*range(2, 102)]] * len(asked)
        assert waited
        assert in_threads == []

    run(place, use)


def test_those_who_give_up_leave_nothing_behind(place: Place) -> None:
    async def use(store: AsyncEventStore) -> None:
        for round_ in range(20):
            tasks = [asyncio.ensure_future(positions(store)) for _ in range(20)]
            for _ in range(round_ % 5):
                await asyncio.sleep(0.0005)
            for task in tasks[:: 1 + round_ % 3]:
                task.cancel()
            for found in await asyncio.gather(*tasks, return_exceptions=True):
                assert found == [1] or isinstance(found, asyncio.CancelledError)
        assert await asyncio.gather(*[positions(store) for _ in range(20)]) == [[1]] * 20
        engine = store.store.engine
        assert isinstance(engine, PostgresEngine)
        reader = engine._awaited._reader
        assert reader is not None
        await asyncio.gather(
            *reader.calls
        )  # the last may wait yet for the server to say that there is no more
        assert not reader.calls
        assert not reader.waiting

    run(place, use)


def test_reads_that_are_cut_off_are_read_again(place: Place, proxy: FaultyProxy) -> None:
    async def use(store: AsyncEventStore) -> None:
        for _ in range(5):
            reads = [asyncio.ensure_future(positions(store)) for _ in range(20)]
            await asyncio.sleep(0.001)
            await asyncio.to_thread(proxy.cut)
            assert await asyncio.gather(*reads) == [[1]] * 20

    run(place, use)


def test_prepared_statements_that_are_gone_are_prepared_again(place: Place) -> None:
    async def use(store: AsyncEventStore) -> None:
        assert await positions(store) == [1]
        engine = store.store.engine
        assert isinstance(engine, PostgresEngine)
        for reading in engine._readers.connections:
            reading.run("deallocate all")
        assert await positions(store) == [1]
        assert await positions(store) == [1]

    run(place, use)


def test_what_fails_is_tried_again_in_a_thread_which_tells_what_is_wrong(
    place: Place, in_threads: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def use(store: AsyncEventStore) -> None:
        def fail(*_: Any) -> Any:
            raise psycopg.errors.QueryCanceled("canceling statement due to statement timeout")

        async def fail_awaited(*_: Any) -> Any:
            yield fail()

        monkeypatch.setattr(connection.Connection, "call_awaited", fail_awaited)
        assert await positions(store) == [1]
        assert in_threads == [FIRST]
        monkeypatch.setattr(connection.Connection, "call", fail)
        with pytest.raises(Unavailable, match="statement timeout"):
            await positions(store)

    run(place, use)


def test_one_that_fails_takes_nothing_from_those_before_it(
    place: Place, in_threads: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = Query.tag("bad")
    asked = awaiting.asked

    def asked_badly(query: Query, *rest: Any) -> Any:
        values = asked(query, *rest)
        return values[:-1] if query == bad else values  # the server does not take fewer than it expects

    async def use(store: AsyncEventStore) -> None:
        await store.append(Event("Bad", {}, tags=["bad"]))
        await asyncio.sleep(NEWS_SECONDS)
        monkeypatch.setattr(awaiting, "CALLS_AT_ONCE", 1)
        monkeypatch.setattr(awaiting, "asked", asked_badly)
        in_threads.clear()
        reads = [positions(store, FIRST) for _ in range(4)]
        after = [positions(store, FIRST) for _ in range(3)]
        assert await asyncio.gather(*reads, positions(store, bad), *after) == [*[[1]] * 4, [2], *[[1]] * 3]
        assert (len(in_threads), in_threads.count(bad)) == (4, 1)
        in_threads.clear()
        assert await positions(store) == [1]  # over the same connection
        assert in_threads == []

    run(place, use)


def test_whoever_is_cancelled_others_are_answered(place: Place) -> None:
    async def use(store: AsyncEventStore) -> None:
        for turns in range(4):
            own = asyncio.all_tasks()
            reading = [asyncio.create_task(positions(store)) for _ in range(20)]
            for _ in range(turns):
                await asyncio.sleep(0)
            for task in asyncio.all_tasks() - own:  # those that answer are among them
                task.cancel()
            await asyncio.gather(*reading, return_exceptions=True)
            assert await asyncio.gather(*[positions(store) for _ in range(20)]) == [[1]] * 20

    run(place, use)


def test_who_gave_up_is_not_read_for(place: Place, calls: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(store: AsyncEventStore) -> None:
        monkeypatch.setattr(awaiting, "CALLS_AT_ONCE", 1)
        reading = [asyncio.create_task(positions(store)) for _ in range(12)]
        await asyncio.sleep(0)
        for task in reading[2:]:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
        assert calls == [2]

    run(place, use)


def test_long_answers_that_come_together_let_the_loop_run(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    call_awaited, answer = connection.Connection.call_awaited, awaiting._Question.answer
    turn, answered_in = 0, []

    async def at_once(self: connection.Connection, statement: str, values: Any) -> Any:
        for rows in [rows async for rows in call_awaited(self, statement, values)]:
            yield rows

    def noted(self: Any, rows: Any) -> None:
        answered_in.append(turn)
        answer(self, rows)

    async def count_turns() -> None:
        nonlocal turn
        while True:
            await asyncio.sleep(0)
            turn += 1

    async def use(store: AsyncEventStore) -> None:
        await store.append([Event("Many", {}, tags=["many"]) for _ in range(300)])
        await asyncio.sleep(NEWS_SECONDS)
        monkeypatch.setattr(awaiting, "CALLS_AT_ONCE", 1)
        monkeypatch.setattr(connection.Connection, "call_awaited", at_once)
        monkeypatch.setattr(awaiting._Question, "answer", noted)
        counting = asyncio.create_task(count_turns())
        found = await asyncio.gather(*[positions(store, Query.tag("many")) for _ in range(6)])
        counting.cancel()
        assert [len(each) for each in found] == [300] * 6
        assert len(set(answered_in)) == 3  # two at a time are more than enough

    run(place, use)


def test_a_store_serves_one_loop_after_another(place: Place, in_threads: list[object]) -> None:
    with place.connect() as sync:
        sync.append(Event("First", {}, tags=["first"]))
        time.sleep(NEWS_SECONDS)
        for _ in range(3):
            assert asyncio.run(positions(AsyncEventStore(sync))) == [1]
        assert in_threads == []


@pytest.mark.parametrize("reads_by_tasks", [True, False])
def test_a_loop_that_was_closed_while_it_read_is_forgotten(place: Place, *, reads_by_tasks: bool) -> None:
    with place.connect() as sync:
        sync.append(Event("First", {}, tags=["first"]))
        time.sleep(NEWS_SECONDS)
        store = AsyncEventStore(sync)
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(lambda *_: None)  # it would complain of tasks that never end
        reading = [loop.create_task(positions(store)) for _ in range(20)]
        loop.call_later(0.0005, loop.stop)
        loop.run_forever()
        loop.close()
        assert not all(task.done() for task in reading)
        engine = sync.engine
        assert isinstance(engine, PostgresEngine)
        read = asyncio.run(positions(store)) if reads_by_tasks else [e.position for e in sync.read(FIRST)]
        assert read == [1]
        end = time.monotonic() + 30
        # None is lost; but threads may read with one yet.
        while len(engine._readers.connections) > len(engine._readers.idle):
            assert time.monotonic() < end
            time.sleep(0.01)


def test_a_closed_store_reads_nothing(place: Place) -> None:
    async def use(store: AsyncEventStore) -> None:
        reads = [asyncio.ensure_future(positions(store)) for _ in range(50)]
        await asyncio.sleep(0)
        await store.close()
        for found in await asyncio.gather(*reads, return_exceptions=True):
            assert found == [1] or isinstance(found, StoreClosed)
        with pytest.raises(StoreClosed):
            await positions(store)

    run(place, use)
