"""The sequencer and the watch beside an engine that fails: no lost caller, no dead worker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from places import Place
from strandline import AppendResult, AsyncEventStore, Event, EventStore, StoreClosed, Unavailable
from strandline.engine import Batch, Outcome, threads
from strandline.engine.memory import MemoryEngine
from strandline.engine.rules import Time


class Flaky(MemoryEngine):
    """A memory engine that fails when told to, and shows how large its batches were."""

    def __init__(self) -> None:
        super().__init__(Time())
        self.fail_append: Callable[[], Exception] | None = None
        self.fail_head: Callable[[], Exception] | None = None
        self.fail_turn: Callable[[], Exception] | None = None
        self.batches: list[int] = []
        self.turn, self.gate = threading.Event(), threading.Event()
        self.turn.set()
        self.gate.set()
        self.entered = threading.Event()

    def append(self, batch: Batch) -> list[Outcome]:
        self.entered.set()
        self.turn.wait(20)
        if self.fail_turn is not None:
            raise self.fail_turn()
        works = batch()
        self.gate.wait(20)
        self.batches.append(len(works))
        if self.fail_append is not None:
            raise self.fail_append()
        return super().append(lambda: works)

    def head(self) -> int:
        if self.fail_head is not None:
            raise self.fail_head()
        return super().head()


def unavailable() -> Unavailable:
    return Unavailable("the disk is gone", written=None)


@pytest.fixture
def engine() -> Flaky:
    return Flaky()


def patiently(coroutine: Any) -> Any:
    return asyncio.run(asyncio.wait_for(coroutine, 20))


def test_a_failing_engine_fails_its_callers_and_works_again_afterwards(engine: Flaky) -> None:
    with EventStore(engine) as store:
        engine.fail_append = unavailable
        for _ in range(3):
            with pytest.raises(Unavailable) as caught:
                store.append(Event("A", {}))
            assert caught.value.written is None
        engine.fail_append = None
        assert store.append(Event("A", {})) == AppendResult(1, 1, 1)


def test_every_waiting_caller_gets_an_error_of_its_own(engine: Flaky) -> None:
    async def use() -> None:
        async with AsyncEventStore(EventStore(engine)) as store:
            engine.fail_append = unavailable
            engine.gate.clear()
            tasks = [asyncio.create_task(store.append(Event("A", {}))) for _ in range(20)]
            await asyncio.sleep(0.01)
            engine.gate.set()
            errors = await asyncio.gather(*tasks, return_exceptions=True)
            assert {type(error) for error in errors} == {Unavailable}
            assert len({id(error) for error in errors}) == 20
            engine.fail_append = None
            assert (await store.append(Event("A", {}))).position == 1

    patiently(use())


def test_the_head_that_cannot_be_looked_at_does_not_fail_an_append(engine: Flaky) -> None:
    store = EventStore(engine)
    seen: list[int] = []
    waiting = threading.Thread(target=lambda: seen.extend(e.position for e in store.subscribe(after=1)))
    store.append(Event("A", {}))
    waiting.start()
    while not store.watch._waiters:
        pass
    engine.fail_head = unavailable
    assert store.append(Event("A", {})).position == 2
    engine.fail_head = None
    assert store.append(Event("A", {})).position == 3
    while len(seen) < 2:
        pass
    store.close()
    waiting.join(20)
    assert seen == [2, 3]


def test_the_head_that_cannot_be_looked_at_does_not_kill_the_worker_of_async_callers(engine: Flaky) -> None:
    async def use() -> None:
        async with AsyncEventStore(EventStore(engine)) as store:
            subscription = store.subscribe()
            reader = asyncio.create_task(anext(subscription))
            while not store.store.watch._waiters:  # noqa: ASYNC110  (no event tells)
                await asyncio.sleep(0.001)
            engine.fail_head = unavailable
            assert (await store.append(Event("A", {}))).position == 1
            engine.fail_head = None
            assert (await store.append(Event("A", {}))).position == 2
            assert (await reader).position == 1

    patiently(use())


def test_callers_that_wait_share_a_transaction(engine: Flaky) -> None:
    async def use() -> None:
        async with AsyncEventStore(EventStore(engine)) as store:
            engine.gate.clear()
            tasks = [asyncio.create_task(store.append(Event("A", {}))) for _ in range(50)]
            await asyncio.sleep(0.05)
            engine.gate.set()
            await asyncio.gather(*tasks)

    patiently(use())
    assert len(engine.batches) <= 3
    assert sum(engine.batches) == 50


def test_who_comes_while_the_engine_waits_for_its_turn_goes_along(engine: Flaky) -> None:
    async def use() -> None:
        async with AsyncEventStore(EventStore(engine)) as store:
            engine.turn.clear()
            first = asyncio.create_task(store.append(Event("A", {})))
            await asyncio.to_thread(engine.entered.wait, 20)
            later = [asyncio.create_task(store.append(Event("A", {}))) for _ in range(5)]
            await asyncio.sleep(0.01)
            first.cancel()
            await asyncio.sleep(0.01)
            engine.turn.set()
            results = await asyncio.gather(*later)
            assert [result.position for result in results] == [1, 2, 3, 4, 5]
            assert first.cancelled()

    patiently(use())
    assert engine.batches == [5]


def test_an_engine_that_fails_before_its_turn_fails_those_who_are_next(engine: Flaky) -> None:
    async def use() -> None:
        async with AsyncEventStore(EventStore(engine)) as store:
            engine.turn.clear()
            engine.fail_turn = unavailable
            tasks = [asyncio.create_task(store.append(Event("A", {}))) for _ in range(3)]
            await asyncio.sleep(0.01)
            engine.turn.set()
            errors = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(error) for error in errors] == [Unavailable] * 3
            engine.fail_turn = None
            assert (await store.append(Event("A", {}))).position == 1

    patiently(use())


def test_an_append_that_is_cancelled_while_it_queues_is_not_written(engine: Flaky) -> None:
    async def use() -> None:
        async with AsyncEventStore(EventStore(engine)) as store:
            engine.gate.clear()
            first = asyncio.create_task(store.append(Event("First", {})))
            await asyncio.to_thread(engine.entered.wait, 20)
            queued = [asyncio.create_task(store.append(Event("Queued", {}))) for _ in range(3)]
            await asyncio.sleep(0.01)
            queued[1].cancel()
            first.cancel()
            await asyncio.sleep(0.01)
            engine.gate.set()
            outcomes = await asyncio.gather(first, *queued, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [
                asyncio.CancelledError,
                AppendResult,
                asyncio.CancelledError,
                AppendResult,
            ]
            assert [event.type async for event in store.read()] == ["First", "Queued", "Queued"]

    patiently(use())


def test_close_waits_for_what_was_accepted_and_refuses_the_rest(engine: Flaky) -> None:
    store = EventStore(engine)
    engine.gate.clear()
    results: list[object] = []
    writers = [
        threading.Thread(target=lambda: results.append(store.append(Event("A", {})))) for _ in range(3)
    ]
    for writer in writers:
        writer.start()
    while len(store.sequencer._queue) < 2:
        pass
    closer = threading.Thread(target=store.close)
    closer.start()
    while not store.sequencer._is_closed:
        pass
    with pytest.raises(StoreClosed):
        store.append(Event("Late", {}))
    engine.gate.set()
    for thread in (*writers, closer):
        thread.join(20)
    assert sorted(result.position for result in results) == [1, 2, 3]  # type: ignore[attr-defined]
    assert store.is_closed


def test_an_interrupted_leader_hands_over_to_those_who_wait(engine: Flaky) -> None:
    def interrupt() -> Exception:
        engine.fail_append = None
        raise KeyboardInterrupt

    with EventStore(engine) as store:
        engine.fail_append = interrupt
        with pytest.raises(KeyboardInterrupt):
            store.append(Event("A", {}))
        assert store.append(Event("A", {})) == AppendResult(1, 1, 1)


def test_waiting_on_a_closed_store_ends_at_once(place: Place) -> None:
    store = place.connect()
    store.close()
    store.watch.wait(0, lambda: False)
    asyncio.run(asyncio.wait_for(store.watch.wait_async(0, lambda: False), 20))


@pytest.mark.parametrize("attempt", range(10))
def test_subscribing_while_the_store_closes_just_ends(place: Place, attempt: int) -> None:
    store = place.connect()
    store.append(Event("A", {}))
    errors: list[BaseException] = []
    started = threading.Barrier(4)

    def follow() -> None:
        started.wait()
        try:
            while True:
                for _ in store.subscribe(after=attempt % 2):
                    break
        except StoreClosed:
            pass
        except BaseException as error:
            errors.append(error)

    followers = [threading.Thread(target=follow) for _ in range(3)]
    for follower in followers:
        follower.start()
    started.wait()
    store.close()
    for follower in followers:
        follower.join(20)
    assert errors == []
    assert not any(follower.is_alive() for follower in followers)


def many_at_once(store: AsyncEventStore, appends: int = 20) -> asyncio.Future[list[AppendResult]]:
    return asyncio.gather(*[store.append(Event("A", {})) for _ in range(appends)])


def test_tasks_that_append_one_after_another_are_written_together_where_they_are_many(engine: Flaky) -> None:
    async def late(store: AsyncEventStore, rounds: int) -> None:
        for _ in range(rounds):
            await asyncio.sleep(0)
        await store.append(Event("B", {}))

    async def use() -> None:
        async with AsyncEventStore(EventStore(engine)) as store:
            await many_at_once(store)
            engine.batches.clear()
            await asyncio.gather(*[late(store, rounds) for rounds in range(30)])
            assert engine.batches == [30]

    patiently(use())


def test_a_loop_that_is_busy_keeps_nobody_else_waiting(
    engine: Flaky, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "LOOK_AGAIN_SECONDS", 60)

    async def use(store: EventStore) -> None:
        facade = AsyncEventStore(store)
        await many_at_once(facade)
        engine.gate.clear()
        engine.entered.clear()
        together = many_at_once(facade)
        assert await asyncio.to_thread(engine.entered.wait, 20)
        behind = asyncio.create_task(facade.append(Event("B", {})))
        await asyncio.sleep(0)
        other = threading.Thread(target=store.append, args=[Event("C", {})])
        other.start()
        while len(store.sequencer._queue) < 22:
            threading.Event().wait(0.001)
        engine.gate.set()
        other.join(20)  # blocks the loop
        assert not other.is_alive()
        assert (await behind).position == (await together)[-1].position + 1

    with EventStore(engine) as store:
        patiently(use(store))


def test_a_loop_that_ends_while_its_tasks_come_loses_none_that_was_accepted(engine: Flaky) -> None:
    store = EventStore(engine)

    async def use() -> None:
        facade = AsyncEventStore(store)
        await many_at_once(facade)
        await many_at_once(facade)

    patiently(use())
    loop = asyncio.new_event_loop()
    left = loop.create_task(AsyncEventStore(store).append(Event("A", {})))
    loop.run_until_complete(asyncio.sleep(0))
    assert not left.done()
    assert store.append(Event("B", {})).position == 42  # a thread writes what waits before it
    loop.run_until_complete(asyncio.wait_for(left, 20))
    left = loop.create_task(AsyncEventStore(store).append(Event("A", {})))
    loop.run_until_complete(asyncio.sleep(0))
    store.close()
    assert engine.batches[-1] == 1
    loop.run_until_complete(asyncio.wait_for(left, 20))
    assert left.result().position == 43
    loop.close()
