"""Reads of tasks in the embedded store: at once if that takes no waiting, in another thread if it does."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import pytest

from strandline import (
    AsyncEventStore,
    Event,
    EventStore,
    Query,
    QueryItem,
    Unavailable,
    connect,
    connect_async,
)
from strandline.engine import Page, Span
from strandline.engine.effort import SHORT_READ
from strandline.engine.memory import SHORT_LOG
from strandline.engine.sqlite import SqliteEngine
from strandline.engine.sqlite.awaiting import MOST_EVENTS, TOGETHER
from strandline.engine.sqlite.search import Search

HOT = Query.tag("course:1")


def _events(count: int) -> list[Event]:
    return [Event("Opened", {"n": n}, tags=[f"course:{n % 3}"]) for n in range(count)]


def awaited(store: EventStore, query: Query, span: Span, size: int) -> Page | None:
    return asyncio.run(store.engine.read_page_awaited(query, span, size))


def test_it_is_the_same_page(tmp_path: Path) -> None:
    with connect(tmp_path / "log.db") as store:
        store.append(_events(30))
        assert awaited(store, HOT, Span(), 5) is not None
        for span in (Span(), Span(4), Span(4, 20), Span(0, None, backwards=True)):
            assert awaited(store, HOT, span, 5) == store.engine.read_page(HOT, span, 5)


def test_what_takes_long_is_not_read_at_once(tmp_path: Path) -> None:
    with connect(tmp_path / "log.db") as store:
        slow = Query.of(QueryItem(["Opened"], where={"n": 1}))
        assert awaited(store, slow, Span(), 5) is None
        assert awaited(store, HOT, Span(), SHORT_READ + 1) is None
        scan, several = QueryItem(exclude_types=["Opened"]), QueryItem(tags=["course:1", "course:2"])
        assert awaited(store, Query.of(scan), Span(), 5) is None
        assert awaited(store, Query.of(several), Span(), 5) is None


def test_the_first_read_of_a_log_is_left_to_a_thread(tmp_path: Path) -> None:
    with connect(tmp_path / "log.db") as store:
        store.append(_events(30))
    with connect(tmp_path / "log.db") as store:
        assert awaited(store, HOT, Span(), 5) is None  # it reads the newest part of the index
        page = store.engine.read_page(HOT, Span(), 5)
        assert awaited(store, HOT, Span(), 5) == page


def test_a_log_in_memory_is_read_at_once_while_it_is_short() -> None:
    with connect("memory:") as store:
        store.append(_events(30))
        assert awaited(store, HOT, Span(), 5) == store.engine.read_page(HOT, Span(), 5)
        store.append(_events(SHORT_LOG))
        assert awaited(store, HOT, Span(), 5) is None


@contextlib.contextmanager
def held(*locks: Any) -> Iterator[None]:
    """While another thread has the locks."""
    has_them, is_over = threading.Event(), threading.Event()

    def hold() -> None:
        with contextlib.ExitStack() as stack:
            for lock in locks:
                stack.enter_context(lock)
            has_them.set()
            is_over.wait(20)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert has_them.wait(20)
        yield
    finally:
        is_over.set()
        holder.join()


def test_nobody_waits_for_who_writes(tmp_path: Path) -> None:
    with connect(tmp_path / "log.db") as store:
        store.append(_events(30))
        engine = store.engine
        assert isinstance(engine, SqliteEngine)
        with held(engine._lock):  # as during a commit
            page = awaited(store, HOT, Span(), 5)
        assert page is not None
        assert page == engine.read_page(HOT, Span(), 5)
        store.append(_events(3))
        store.retag(2, add=["course:9"])
        for query in (HOT, Query.tag("course:9")):
            with held(engine._lock):
                beside = awaited(store, query, Span(), 50)
            assert beside == engine.read_page(query, Span(), 50)
        with held(engine._lock, engine._beside):  # as during a read of another loop
            assert awaited(store, HOT, Span(), 5) is None


def test_what_is_waited_for_is_waited_for_elsewhere(tmp_path: Path) -> None:
    async def run() -> None:
        async with connect_async(tmp_path / "log.db") as store:
            await store.append(_events(30))
            engine = store.store.engine
            assert isinstance(engine, SqliteEngine)
            with held(engine._lock, engine._beside):
                reading = asyncio.create_task(_positions(store))
                await asyncio.sleep(0.05)
                assert not reading.done()  # and yet this task goes on
            assert await reading == [2, 5, 8, 11, 14, 17, 20, 23, 26, 29]

    asyncio.run(run())


def test_who_reads_again_and_again_lets_others_run(tmp_path: Path) -> None:
    async def run() -> None:
        async with connect_async(tmp_path / "log.db") as store:
            await store.append(_events(3))
            turns = 0

            async def other() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            running = asyncio.create_task(other())
            for _ in range(50):
                await store.read(HOT)
            running.cancel()
            assert turns >= 50

    asyncio.run(run())


def test_many_pages_are_one_state(tmp_path: Path) -> None:
    async def run() -> None:
        async with connect_async(tmp_path / "log.db") as store:
            await store.append(_events(3 * (SHORT_READ + 100)))
            assert len(await store.read(HOT).all_events()) == SHORT_READ + 100

    asyncio.run(run())


async def _positions(store: AsyncEventStore) -> list[int]:
    return [event.position async for event in store.read(HOT)]


def test_those_who_ask_together_see_one_state_and_each_gets_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0
    in_snapshot = Search.in_snapshot

    def counted(self: Search, question: Any) -> Any:
        nonlocal looks
        looks += 1
        return in_snapshot(self, question)

    async def run() -> None:
        async with connect_async(tmp_path / "log.db") as store:
            await store.append([Event("Opened", {}, tags=[f"one-of:{n % 40}"]) for n in range(80)])
            await store.read(HOT)
            monkeypatch.setattr(Search, "in_snapshot", counted)
            asked = [store.read(Query.tag(f"one-of:{n}")).all_events() for n in range(50)]
            found = [[event.position for event in events] for events in await asyncio.gather(*asked)]
            assert found == [*[[n + 1, n + 41] for n in range(40)], *[[]] * 10]
            assert looks == math.ceil(50 / TOGETHER)

    asyncio.run(run())


def test_tasks_read_what_they_have_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def look_beside(self: SqliteEngine, question: Any) -> bool:  # as if there were always a commit
        self._search_beside().in_snapshot(question)
        return True

    monkeypatch.setattr(SqliteEngine, "_look_at_once", look_beside)

    async def write_and_read(store: AsyncEventStore, number: int) -> None:
        query = Query.tag(f"own:{number}")
        for count in range(1, 21):
            result = await store.append(Event("Opened", {}, tags=[f"own:{number}"]))
            read = await store.read(query)
            assert read.head >= result.position
            found = [event.position async for event in read]
            assert len(found) == count
            assert found[-1] == result.position

    async def run() -> None:
        async with connect_async(tmp_path / "log.db") as store:
            await store.append(_events(1))
            await asyncio.gather(*[write_and_read(store, number) for number in range(16)])
            engine = store.store.engine
            assert isinstance(engine, SqliteEngine)
            assert engine._reads_beside is not None

    asyncio.run(run())


def test_long_pages_are_read_one_after_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages: list[int] = []
    in_snapshot = Search.in_snapshot

    def counted(self: Search, question: Any) -> Any:
        pages.append(0)
        return in_snapshot(self, question)

    async def run() -> None:
        async with connect_async(tmp_path / "log.db") as store:
            await store.append(_events(3 * MOST_EVENTS))
            await store.read(HOT)
            monkeypatch.setattr(Search, "in_snapshot", counted)
            page = Span(), MOST_EVENTS
            engine = store.store.engine
            found = await asyncio.gather(*[engine.read_page_awaited(HOT, *page) for _ in range(5)])
            assert [len(each.events) for each in found if each is not None] == [MOST_EVENTS] * 5
            assert len(pages) == 5

    asyncio.run(run())


def test_those_who_give_up_do_not_keep_others_from_their_answer(tmp_path: Path) -> None:
    async def run() -> None:
        async with connect_async(tmp_path / "log.db") as store:
            await store.append(_events(30))
            for leave in (1, 2, 3):
                reading = [asyncio.create_task(_positions(store)) for _ in range(3 * TOGETHER)]
                await asyncio.sleep(0)
                for task in reading[::leave]:
                    task.cancel()
                for found in await asyncio.gather(*reading, return_exceptions=True):
                    assert isinstance(found, asyncio.CancelledError) or len(found) == 10
            assert len(await _positions(store)) == 10

    asyncio.run(run())


def test_what_fails_is_told_by_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Page:
        raise apsw.IOError("disk I/O error")

    async def run() -> None:
        async with connect_async(tmp_path / "log.db") as store:
            await store.append(_events(30))
            await store.read(HOT)
            monkeypatch.setattr(Search, "read_page", fail)
            with pytest.raises(Unavailable, match="disk I/O error"):
                await store.read(HOT)

    asyncio.run(run())


def test_loops_of_several_threads_may_read_at_once(tmp_path: Path) -> None:
    with connect(tmp_path / "log.db") as store:
        store.append(_events(30))
        store.engine.read_page(HOT, Span(), 5)

        async def many() -> None:
            both = AsyncEventStore(store)
            for found in await asyncio.gather(*[_positions(both) for _ in range(200)]):
                assert len(found) == 10

        with ThreadPoolExecutor(4) as threads:
            for done in [threads.submit(asyncio.run, many()) for _ in range(4)]:
                done.result(60)
