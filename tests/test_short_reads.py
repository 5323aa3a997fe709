"""Short look-ups never wait for reads that take long."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import strandline
from places import Place
from strandline import AsyncEventStore, Event, EventStore, Query, QueryItem
from strandline.aio import READ_THREADS
from strandline.engine.postgres.readers import READERS
from strandline.engine.sqlite import SqliteEngine, connection

PATIENCE_SECONDS = 60
MANY = 12  # more than there are connections, or threads, for long reads


class Gate:
    """A matcher that holds up every read that asks it, until it is opened."""

    def __init__(self) -> None:
        self.waiting = 0
        self._is_open = threading.Event()
        self.query = Query.of(QueryItem(where=self.match))

    def match(self, _: Any) -> bool:
        self.waiting += 1
        assert self._is_open.wait(PATIENCE_SECONDS)
        return True

    @contextmanager
    def closed(self) -> Iterator[None]:
        try:
            yield
        finally:
            self._is_open.set()


def look_up(store: EventStore) -> tuple[Any, ...]:
    return (
        store.head(),
        store.event(1).position,
        store.exists(Query.tag("x")),
        [event.position for event in store.read(Query.tag("x"))],
        store.tracked("s"),
        store.followers(),
        store.count(),
    )


def begun(gate: Gate, count: int) -> None:
    """Wait until so many reads are held up: as many as there can be at once on every engine."""
    end = time.monotonic() + PATIENCE_SECONDS
    while gate.waiting < count:
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.mark.parametrize("read", ["count", "read", "exists", "check"])
def test_a_thread_never_waits_for_long_reads_of_others(place: Place, read: str) -> None:
    gate = Gate()
    with place.connect() as store:
        store.append([Event("A", {}, tags=["x"])])
        reads = {
            "count": lambda: store.count(gate.query),
            "read": lambda: list(store.read(gate.query)),
            "exists": lambda: store.exists(gate.query),
            "check": lambda: store.check(strandline.AppendCondition(gate.query, after=0)),
        }
        if read == "check" and place.url == "memory:":
            return  # which has one lock, and its matchers hold it
        with ThreadPoolExecutor(MANY) as threads, gate.closed():
            running = [threads.submit(reads[read]) for _ in range(MANY)]
            begun(gate, READERS)
            assert look_up(store) == (1, 1, True, [1], None, [], 1)
            assert store.append(Event("B", {})).position == 2
            assert not any(each.done() for each in running)


def test_a_task_never_waits_for_long_reads_of_others(place: Place) -> None:
    gate = Gate()

    async def use(store: AsyncEventStore) -> None:
        await store.append([Event("A", {}, tags=["x"])])
        with gate.closed():
            running = [asyncio.create_task(store.count(gate.query)) for _ in range(MANY)]
            running += [asyncio.create_task(store.exists(gate.query)) for _ in range(MANY)]
            await asyncio.to_thread(begun, gate, READ_THREADS)
            assert await store.head() == 1
            assert (await store.event(1)).position == 1
            assert await store.exists(Query.tag("x"))
            assert [event.position async for event in store.read(Query.tag("x"))] == [1]
            assert [event.position async for event in store.read(Query.tag("x", "y"))] == []
            assert await store.tracked("s") is None
            assert not any(task.done() for task in running)
        await asyncio.gather(*running)

    async def main() -> None:
        async with place.connect_async() as store:
            await asyncio.wait_for(use(store), PATIENCE_SECONDS)

    asyncio.run(main())


def test_head_returns_while_pages_are_searched_for(place: Place) -> None:
    """Pages have threads of their own, too: a few tags in common can take long to find."""
    gate = threading.Event()

    async def use(store: AsyncEventStore) -> None:
        read_page, waiting = store.store.engine.read_page, threading.Event()

        def read_slowly(*arguments: Any) -> Any:
            waiting.set()
            assert gate.wait(PATIENCE_SECONDS)
            return read_page(*arguments)

        async def no_page(*_: Any) -> None:
            return None

        store.store.engine.read_page = read_slowly  # type: ignore[method-assign]
        store.store.engine.read_page_awaited = no_page  # type: ignore[method-assign]
        try:
            running = [asyncio.ensure_future(list_of(store)) for _ in range(MANY)]
            await asyncio.to_thread(waiting.wait, PATIENCE_SECONDS)
            assert await store.head() == 0
            assert not any(task.done() for task in running)
        finally:
            gate.set()
        await asyncio.gather(*running)

    async def list_of(store: AsyncEventStore) -> list[Any]:
        return [event async for event in store.read(Query.tag("x", "y"))]

    async def main() -> None:
        async with place.connect_async() as store:
            await asyncio.wait_for(use(store), PATIENCE_SECONDS)

    asyncio.run(main())


SLOW = [
    Query.tag("even", "odd"),
    Query.of(QueryItem(exclude_types=["A", "B"])),
    Query.of(QueryItem(tags=["even", "odd"]), QueryItem(tags=["few"])),
]


@pytest.mark.parametrize("query", SLOW, ids=range(len(SLOW)))
def test_a_search_that_turns_out_to_be_long_goes_on_elsewhere(
    query: Query, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with strandline.connect(tmp_path / "log.db") as store:
        engine = store.engine
        assert isinstance(engine, SqliteEngine)
        store.append([Event("A", {}, tags=["even" if n % 2 else "odd"]) for n in range(100)])
        list(store.read(query))
        assert not engine._readers, "a short search is not interrupted"
        for _ in range(3):  # not only what is in memory
            store.append([Event("A", {}, tags=["even" if n % 2 else "odd"]) for n in range(4_000)])
        store.append(Event("C", {}, tags=["few"]))
        expected = [event.position for event in store.read() if query.matches(event)]
        engine._readers.clear()
        monkeypatch.setattr(connection, "FEW_STEPS", 50)
        assert [event.position for event in store.read(query)] == expected
        assert store.exists(query) == bool(expected)
        assert engine._readers
        store.append(Event("A", {}))  # no limit is left behind
        assert store.head() == 12_102
        engine._readers.clear()
        assert [event.position for event in store.read(Query.tag("few"))] == [12_101]
        assert not engine._readers, "what the index leads to is short"
