"""The same store for asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import pytest

from ... import AppendRequest, AppendResult, AsyncEventStore, Batch, Query, SequencedEvent
from ...errors import AppendConditionFailed, EventIdConflict, InvalidInput, StoreClosed
from ..clock import START, ManualClock
from ..oracle import violations
from .kit import PATIENCE_SECONDS, OpenStore, happened, is_refused, item, nothing_new

T = TypeVar("T")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine, but not forever."""

    async def patiently() -> T:
        return await asyncio.wait_for(coroutine, PATIENCE_SECONDS)

    return asyncio.run(patiently())


async def positions(events: AsyncIterator[SequencedEvent], count: int | None = None) -> list[int]:
    """The positions of the (first `count`) events."""
    seen: list[int] = []
    async for event in events:
        seen.append(event.position)
        if len(seen) == count:
            break
    return seen


class Asynchronous:
    """An AsyncEventStore does what an EventStore does."""

    @pytest.fixture
    def open_async(self, open_store: OpenStore) -> Callable[..., AsyncEventStore]:
        """Opens the log under test for asyncio."""
        return lambda **options: AsyncEventStore(open_store(**options))

    def test_async_every_method_gives_the_same_answers(
        self, open_async: Callable[..., AsyncEventStore]
    ) -> None:
        async def use() -> None:
            async with open_async(clock=ManualClock()) as store:
                assert await store.append(happened("A", "x")) == AppendResult(1, 1, 1)
                request = AppendRequest([happened("B"), happened("B")], nothing_new(Query.tag("y")))
                assert await store.append_many([request]) == [AppendResult(2, 3, 2)]
                assert await store.append_many([]) == []
                assert await store.retag([1], add=["y"]) == AppendResult(4, 4, 1)
                read = await store.read(Query.tag("y"))
                assert (read.head, read.condition) == (4, nothing_new(Query.tag("y"), 4))
                assert await positions(aiter(read)) == [1]
                assert await positions(aiter(read)) == [1]
                assert [line async for line in read.ndjson()] == list(
                    store.store.read(Query.tag("y")).ndjson()
                )
                pages = store.store.read(Query.tag("y")).pages()
                assert [page async for page in read.pages()] == list(pages)
                backwards = store.read(after=1, until=3, backwards=True, limit=1)
                assert await positions(aiter(backwards)) == [3]
                assert (await store.head(), await store.count(), await store.exists(Query.tag("z"))) == (
                    4,
                    4,
                    False,
                )
                assert await store.position_at(START) == 4
                assert await store.count(after=1) == 3
                assert await store.event(2) == store.store.event(2)
                check = await store.check(nothing_new(Query.tag("y")), conflicts=0)
                assert check == store.store.check(nothing_new(Query.tag("y")), conflicts=0)
                assert (await store.stats()).head == 4
                assert [append.first async for append in store.appends()] == [1, 2, 4]
                assert [append.first async for append in await store.appends(1)] == [2, 4]
                assert [append.first async for append in store.appends(backwards=True, limit=2)] == [4, 2]
                same = store.store.inspect
                assert await store.inspect.types("$", after="#", limit=1) == same.types("$", after="#")
                assert await store.inspect.tags("x", after="!", limit=1) == same.tags("x", limit=1)
                assert await store.inspect.recorded(2) == same.recorded(2)

        run(use())

    def test_short_calls_never_wait_for_long_ones(self, open_async: Callable[..., AsyncEventStore]) -> None:
        async def use() -> None:
            async with open_async() as store:
                await store.append(happened("A", "x"))
                has_short_answers = threading.Event()
                query = Query.of(item("x", where=lambda event: has_short_answers.wait(PATIENCE_SECONDS)))
                if is_refused(store.store, query):
                    return
                long = [asyncio.create_task(store.count(query)) for _ in range(6)]
                long += [asyncio.create_task(store.exists(query)) for _ in range(6)]
                long += [asyncio.create_task(aread(store, query)) for _ in range(6)]
                await asyncio.sleep(0.1)
                try:
                    assert await store.head() == 1
                    assert await store.exists(Query.tag("x"))
                    assert (await store.event(1)).position == 1
                    assert await store.position_at(START) in (0, 1)
                    assert (await store.inspect.recorded(1)).first == 1
                    assert await positions(aiter(store.read(Query.tag("x")))) == [1]
                    assert not any(task.done() for task in long)
                finally:
                    has_short_answers.set()
                assert await asyncio.gather(*long) == [1] * 6 + [True] * 6 + [1] * 6

        async def aread(store: AsyncEventStore, query: Query) -> int:
            return len([event async for event in store.read(query)])

        run(use())

    def test_async_errors_are_the_same(self, open_async: Callable[..., AsyncEventStore]) -> None:
        async def use() -> None:
            async with open_async(max_data_bytes=100) as store:
                event = happened("A", "x")
                await store.append(event)
                with pytest.raises(AppendConditionFailed) as caught:
                    await store.append(happened(), nothing_new(Query.tag("x")))
                assert caught.value.conflict.position == 1
                with pytest.raises(EventIdConflict):
                    await store.append([event, happened()])
                with pytest.raises(InvalidInput):
                    await store.append([])
                with pytest.raises(InvalidInput):
                    await store.append(happened("A", text="x" * 100))
                with pytest.raises(InvalidInput):
                    store.read(limit=0)
                with pytest.raises(AttributeError, match="await"):
                    _ = store.read().head
                assert (await store.append(event)).duplicate
                assert await store.head() == 1

        run(use())

    def test_async_pages_join_without_seam(self, open_async: Callable[..., AsyncEventStore]) -> None:
        async def use() -> None:
            async with open_async() as store:
                await store.append([happened("A", f"mod:{n % 2}") for n in range(9_000)])
                read = await store.read(Query.tag("mod:1"))
                await store.append(happened("A", "mod:1"))
                assert await positions(aiter(read)) == list(range(2, 9_001, 2))
                limited = store.read(Query.tag("mod:1"), limit=3_000, backwards=True)
                assert await positions(aiter(limited)) == [9_001, *range(9_000, 3_002, -2)]

        run(use())

    def test_async_64_tasks_decide_at_once(self, open_async: Callable[..., AsyncEventStore]) -> None:
        async def use() -> None:
            async with open_async() as store:

                async def decide(task: int) -> int:
                    refused = 0
                    for n in range(5):
                        query = Query.of(item(f"k:{(task + n) % 7}"), item(types=[f"T{task % 5}"]))
                        read = await store.read(query)
                        event = happened(f"T{n}", f"k:{(task * n) % 7}")
                        try:
                            await store.append(event, read.condition)
                        except AppendConditionFailed as error:
                            refused += 1
                            assert error.conflict.position > read.head
                            assert query.matches(error.conflict)
                    return refused

                refused = sum(await asyncio.gather(*(decide(task) for task in range(64))))
                assert await store.head() == 320 - refused
                assert (await store.stats()).refused == refused
                assert violations(store.store) == []

        run(use())

    def test_async_threads_and_tasks_share_one_order(
        self, open_async: Callable[..., AsyncEventStore]
    ) -> None:
        async def use() -> None:
            async with open_async() as store:
                awaited = [store.append(happened("A")) for _ in range(50)]
                in_threads = [asyncio.to_thread(store.store.append, happened("B")) for _ in range(50)]
                results = await asyncio.gather(*awaited, *in_threads)
                assert sorted(result.position for result in results) == list(range(1, 101))

        run(use())

    def test_async_a_cancelled_append_was_written_or_not_and_may_be_repeated(
        self, open_async: Callable[..., AsyncEventStore]
    ) -> None:
        async def use() -> None:
            async with open_async() as store:
                events = [[happened("A", f"n:{n}"), happened("B", f"n:{n}")] for n in range(60)]
                tasks = [asyncio.create_task(store.append(pair)) for pair in events]
                for n, task in enumerate(tasks):
                    if n % 3 == 0:
                        await asyncio.sleep(0)
                    if n % 2:
                        task.cancel()
                outcomes = await asyncio.gather(*tasks, return_exceptions=True)
                for pair, outcome in zip(events, outcomes, strict=True):
                    query = Query.tag(pair[0].tags[0])
                    found = await store.count(query)
                    assert found in (0, 2)
                    assert isinstance(outcome, AppendResult) <= (found == 2)
                    again = await store.append(pair)
                    assert again.duplicate == (found == 2)
                    assert await store.count(query) == 2
                assert violations(store.store) == []

        run(use())

    def test_async_cancelling_one_leaves_the_others(self, open_async: Callable[..., AsyncEventStore]) -> None:
        async def use() -> None:
            async with open_async() as store:
                tasks = [asyncio.create_task(store.append(happened())) for _ in range(10)]
                await asyncio.sleep(0)
                tasks[0].cancel()
                tasks[5].cancel()
                outcomes = await asyncio.gather(*tasks, return_exceptions=True)
                others = [outcome for n, outcome in enumerate(outcomes) if n not in (0, 5)]
                assert all(isinstance(outcome, AppendResult) for outcome in others)

        run(use())

    def test_async_subscriptions_catch_up_and_wait(self, open_async: Callable[..., AsyncEventStore]) -> None:
        async def use() -> None:
            async with open_async() as store:
                await store.append([happened("A", "x"), happened("A", "y")])
                subscription = store.subscribe(Query.tag("x"))
                reader = asyncio.create_task(positions(aiter(subscription), 4))
                for _ in range(3):
                    await asyncio.sleep(0.005)
                    await store.append([happened("A", "x"), happened("A", "y")])
                assert await reader == [1, 3, 5, 7]

        run(use())

    def test_async_stop_and_close_end_subscriptions(self, open_async: Callable[..., AsyncEventStore]) -> None:
        async def use() -> None:
            store = open_async()
            await store.append(happened())
            first, second = store.subscribe(), store.subscribe()
            assert (await anext(first)).position == (await anext(second)).position == 1
            readers = [asyncio.create_task(positions(aiter(s))) for s in (first, second)]
            await asyncio.sleep(0.05)  # they wait by now; if not, they must end all the same
            first.stop()
            assert await readers[0] == []
            await store.close()
            assert await readers[1] == []

        run(use())

    def test_async_a_cancelled_subscriber_leaves_the_store_working(
        self, open_async: Callable[..., AsyncEventStore]
    ) -> None:
        async def use() -> None:
            async with open_async() as store:
                reader = asyncio.create_task(positions(aiter(store.subscribe())))
                await asyncio.sleep(0.02)
                reader.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await reader
                await store.append(happened())
                assert await positions(aiter(store.subscribe()), 1) == [1]

        run(use())

    def test_async_a_wait_that_is_given_up_loses_nothing(
        self, open_async: Callable[..., AsyncEventStore]
    ) -> None:
        async def use() -> None:
            async with open_async() as store, store.subscribe() as subscription:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(anext(subscription), 0.02)
                await store.append([happened(), happened()])
                assert (await anext(subscription)).position == 1
                assert (await asyncio.wait_for(anext(subscription), 20)).position == 2
                waiting = asyncio.create_task(anext(subscription))
                await asyncio.sleep(0.02)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
                await store.append(happened())
                assert (await anext(subscription)).position == 3
            assert [event async for event in subscription] == []

        run(use())

    def test_async_batches_say_how_far_they_looked(self, open_async: Callable[..., AsyncEventStore]) -> None:
        async def use() -> None:
            async with open_async() as store:
                await store.append([happened("A", "x"), happened("A", "y")])
                batches = store.subscribe(Query.tag("x")).batches(seconds=0.02, size=2)
                assert await anext(batches) == Batch([await store.event(1)], 2)
                assert await anext(batches) == Batch([], 2)
                await store.append([happened("A", "x" if n % 2 else "y") for n in range(8)])
                seen, batch = [], Batch([], 0)
                while batch.position < 10:
                    batch = await anext(batches)
                    assert len(batch.events) <= 2
                    seen += [event.position for event in batch.events]
                assert seen == [4, 6, 8, 10]
                with pytest.raises(InvalidInput):
                    store.subscribe().batches(seconds=0)

        run(use())

    def test_async_batches_with_a_slow_matcher_keep_nobody_else_waiting(
        self, open_async: Callable[..., AsyncEventStore]
    ) -> None:
        async def use() -> None:
            async with open_async() as store:
                has_short_answers = threading.Event()
                query = Query.of(item("x", where=lambda event: has_short_answers.wait(PATIENCE_SECONDS)))
                if is_refused(store.store, query):
                    return
                slow = store.subscribe(query).batches(seconds=0.01)
                quick = store.subscribe(Query.tag("x")).batches(seconds=0.01)
                assert (await anext(slow), await anext(quick)) == (Batch([], 0), Batch([], 0))
                matching = asyncio.ensure_future(anext(slow))
                await store.append(happened("A", "x"))
                try:
                    batch = Batch([], 0)
                    while not batch.events:
                        batch = await anext(quick)
                    assert await store.head() == 1
                finally:
                    has_short_answers.set()
                batch = await matching
                while not batch.events:
                    batch = await anext(slow)
                assert batch.position == 1

        run(use())

    def test_async_batches_end_with_the_subscription_and_with_the_store(
        self, open_async: Callable[..., AsyncEventStore]
    ) -> None:
        async def use() -> None:
            store = open_async()
            subscriptions = [store.subscribe() for _ in range(2)]
            waits = [s.batches(seconds=PATIENCE_SECONDS * 5) for s in subscriptions]
            tasks = [asyncio.create_task(anext(batches, None)) for batches in waits]
            await asyncio.sleep(0.02)  # they wait by now; if not, they must end all the same
            subscriptions[0].stop()
            assert await tasks[0] is None
            await store.close()
            assert await tasks[1] is None

        run(use())

    def test_async_many_subscriptions_miss_nothing_and_repeat_nothing(
        self, open_async: Callable[..., AsyncEventStore]
    ) -> None:
        async def use() -> None:
            async with open_async() as store:
                queries = [Query.tag(f"k:{n % 5}") if n % 6 else Query.user() for n in range(30)]
                readers = [
                    asyncio.create_task(positions(aiter(store.subscribe(query)), 120 if n % 6 else 600))
                    for n, query in enumerate(queries)
                ]
                for _ in range(60):
                    await asyncio.gather(
                        *(store.append([happened("A", f"k:{n}") for n in range(5)]) for _ in range(2))
                    )
                for query, reader in zip(queries, readers, strict=True):
                    assert await reader == await positions(aiter(store.read(query)))

        run(use())

    def test_async_close_drains_what_was_accepted(self, open_async: Callable[..., AsyncEventStore]) -> None:
        async def use() -> None:
            store = open_async()
            tasks = [asyncio.create_task(store.append(happened())) for _ in range(100)]
            await asyncio.sleep(0)
            await store.close()
            await store.close()
            results = await asyncio.gather(*tasks)
            assert sorted(result.position for result in results) == list(range(1, 101))

        run(use())

    def test_async_a_closed_store_refuses_every_use(self, open_async: Callable[..., AsyncEventStore]) -> None:
        async def use() -> None:
            store = open_async()
            await store.close()
            uses: list[Callable[[], Awaitable[object]]] = [
                lambda: store.append(happened()),
                lambda: store.append_many([]),
                lambda: store.retag([1], add=["x"]),
                store.head,
                store.count,
                lambda: store.exists(Query.all()),
                store.stats,
            ]
            for use_it in uses:
                with pytest.raises(StoreClosed):
                    await use_it()
            for begin in (store.read, store.subscribe, store.appends):
                with pytest.raises(StoreClosed):
                    begin()

        run(use())
