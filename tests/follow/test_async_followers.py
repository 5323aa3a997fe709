"""Followers for asyncio: the same, awaited, and without a thread while they wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from follow.following import Seen, Tally, some
from places import Place
from strandline import AsyncEventStore, Event, FollowerFailed, InvalidInput, Query
from strandline.follow import AsyncTransaction

IDLE = 1_000


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110  (whatever it is that is waited for)
            await asyncio.sleep(0.005)


class Later(Seen):
    """An async handler, as an object."""

    async def __call__(self, events: Any, tx: Any) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        super().__call__(events, tx)


@pytest.mark.parametrize("kind", [Seen, Later])
def test_handlers_may_be_async_or_not(place: Place, kind: type[Seen]) -> None:
    async def main() -> None:
        async with place.connect_async() as store:
            for number in range(9):
                await store.append(some("a" if number % 2 else "b"))
            seen, follower = kind(), store.follower("f", Query.tag("a"))
            assert await follower.catch_up(seen, batch=3) == 9
            assert seen.batches == [[2, 4, 6], [8]]
            task = asyncio.create_task(follower.run(seen))
            await store.append(some("a"))
            await until(lambda: seen.positions[-1] == 10)
            assert (await follower.status()).state == "running"
            follower.stop()
            assert await task == 10
            assert [status.name for status in await store.followers()] == ["f"]

    asyncio.run(main())


def test_an_async_handler_works_in_the_transaction(kept: Place) -> None:
    async def main() -> None:
        async with kept.connect_async() as store:
            tally = Tally(kept)
            tally.make(store.store)
            await store.append(some("a", count=10))
            failures = []

            async def fails_at_first(events: Any, tx: AsyncTransaction) -> None:
                await tally.later(events, tx)
                await tx.execute_many(
                    f"insert into {tally.table} values ({tally._mark}, {tally._mark})", [(0, 0)]
                )
                assert await tx.execute(f"delete from {tally.table} where times = 0") == []
                if len(failures) < 2:
                    failures.append(len(events))
                    raise OSError("not now")

            follower = store.follower("f")
            assert await follower.catch_up(fails_at_first, backoff=0) == 10
            assert failures == [10, 1]
            assert tally.positions(store.store) == list(range(1, 11))

    asyncio.run(main())


def test_letters_pauses_and_resets(place: Place) -> None:
    async def main() -> None:
        async with place.connect_async() as store:
            await store.append(some("a", count=3))
            is_broken = True

            async def handle(events: Any, tx: Any) -> None:
                if is_broken and any(event.position == 2 for event in events):
                    raise ValueError("broken")

            follower = store.follower("f")
            await follower.catch_up(handle, attempts=2, backoff=0)
            assert [letter.position for letter in await follower.dead_letters()] == [2]
            with pytest.raises(FollowerFailed):
                await follower.replay(2)
            is_broken = False
            await follower.replay(2)
            assert await follower.dead_letters() == []
            await follower.pause()
            assert (await follower.status()).state == "paused"
            await follower.resume()
            assert await follower.reset(1) == 1
            seen = Seen()
            await follower.catch_up(seen)
            assert seen.positions == [2, 3]
            await follower.forget()
            assert await store.followers() == []

    asyncio.run(main())


def test_an_async_handler_cannot_write_but_may_read(place: Place) -> None:
    async def main() -> None:
        async with place.connect_async() as store:
            await store.append(some("a", count=2))
            hints, read = [], []

            async def handle(events: Any, tx: Any) -> None:
                other = asyncio.create_task(append_later(store))
                for write in (lambda: store.append(Event("B", {})), lambda: store.retag([1], add=["x"])):
                    with pytest.raises(InvalidInput) as refusal:
                        await write()
                    hints.append(refusal.value.hint)
                with pytest.raises(InvalidInput):
                    await other  # a task of the handler is the handler
                read.extend([event.position async for event in store.read(until=2)])
                assert await store.count() >= 2

            await store.follower("f").catch_up(handle)
            assert all("automation" in hint for hint in hints)
            assert read == [1, 2]
            assert await store.head() == 2

            async def answer(events: Any, tx: Any) -> None:
                await store.append(Event("B", {}))

            await store.follower("g").catch_up(answer, in_transaction=False)
            assert await store.head() == 3

    async def append_later(store: AsyncEventStore) -> None:
        await store.append(Event("B", {}))

    asyncio.run(main())


def test_appends_go_on_while_an_async_handler_takes_its_time(postgres: Place) -> None:
    async def main() -> None:
        async with postgres.connect_async() as store:
            await store.append(some("a"))
            begun, go_on = asyncio.Event(), asyncio.Event()

            async def slow(events: Any, tx: Any) -> None:
                begun.set()
                await go_on.wait()

            task = asyncio.create_task(store.follower("f").catch_up(slow))
            await begun.wait()
            assert (await store.append(some("a"))).position == 2
            go_on.set()
            assert await task == 1

    asyncio.run(main())


def test_cancelled_it_undoes_what_it_has_begun_and_lets_others_run(kept: Place) -> None:
    async def main() -> None:
        async with kept.connect_async() as store:
            tally = Tally(kept)
            tally.make(store.store)
            await store.append(some("a", count=3))
            begun = asyncio.Event()

            async def never_ends(events: Any, tx: Any) -> None:
                await tally.later(events, tx)
                begun.set()
                await asyncio.sleep(1_000)

            task = asyncio.create_task(store.follower("f").run(never_ends))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await store.follower("f").status()).state == "idle"
            assert await store.follower("f").catch_up(tally.later) == 3
            assert tally.positions(store.store) == [1, 2, 3]

    asyncio.run(main())


def test_a_reset_reaches_who_waits_for_more(place: Place) -> None:
    async def main() -> None:
        async with place.connect_async() as store:
            seen, follower = Seen(), store.follower("f")
            await store.append(some("a", count=2))
            run = asyncio.create_task(follower.run(seen))
            await until(lambda: seen.positions == [1, 2])
            await store.follower("f").reset(1)
            await until(lambda: seen.positions == [1, 2, 2])
            follower.stop()
            assert await run == 2

    asyncio.run(main())


def test_closing_the_store_ends_the_run(place: Place) -> None:
    async def main() -> None:
        store = await place.connect_async()
        await store.append(some("a"))
        seen = Later()
        tasks = [asyncio.create_task(store.follower(f"f{n}").run(seen)) for n in range(3)]
        await until(lambda: len(seen.positions) == 3)
        await store.close()
        assert await asyncio.gather(*tasks) == [1, 1, 1]

    asyncio.run(main())


def test_many_handlers_that_want_the_same_row_do_not_block_each_other_for_ever(kept: Place) -> None:
    async def main() -> None:
        async with kept.connect_async() as store:
            tally = Tally(kept)
            tally.make(store.store)
            await store.append(some("a", count=5))

            async def count(events: Any, tx: Any) -> None:
                await tx.execute(f"update {tally.table} set times = times + {len(events)}")
                await asyncio.sleep(0.001)
                assert await store.count() == 5

            async def first(events: Any, tx: Any) -> None:
                await tx.execute(f"insert into {tally.table} values (0, 0)")

            await store.follower("first").catch_up(first)
            followers = [store.follower(f"f{n}") for n in range(20)]
            await asyncio.gather(*(follower.catch_up(count, batch=2) for follower in followers))
            tx = store.store.engine.transaction()
            tx.begin()
            ((times,),) = tx.execute(f"select times from {tally.table}")
            tx.end()
            assert times == 100

    asyncio.run(main())


def test_a_thousand_that_wait_cost_no_threads(new_place: Callable[[str], Place]) -> None:
    """500 followers and 500 subscriptions, on a log that other processes could write to."""

    before = {*threading.enumerate()}  # of other tests of this process

    async def main() -> None:
        async with new_place("sqlite").connect_async() as store:
            seen = Seen()
            got: list[int] = []

            async def subscribe() -> None:
                async for event in store.subscribe(Query.tag("a")):
                    got.append(event.position)  # noqa: PERF401  (it never ends)

            follows = [store.follower(f"f{n}", Query.tag("a")).run(seen) for n in range(IDLE // 2)]
            tasks = [asyncio.create_task(follow) for follow in follows]
            tasks += [asyncio.create_task(subscribe()) for _ in range(IDLE // 2)]
            watch, tail = store.store.watch, store.store.tail
            # One of those who watch is the tail, for all subscriptions.
            await until(lambda: len(watch._waiters) == IDLE // 2 + 1 and len(tail._inboxes) == IDLE // 2)
            usual = {
                *(
                    "MainThread",
                    "strandline-read",
                    "strandline-page",
                    "strandline-writer",
                    "strandline-watch",
                    "strandline-tail",
                ),
                *("strandline-leases", "asyncio"),
            }

            def own() -> set[str]:
                new = {*threading.enumerate()} - before
                return {thread.name.rpartition("_")[0] or thread.name for thread in new}

            await until(lambda: own() <= usual)  # the thread of the last transaction may still be ending
            assert len({*threading.enumerate()} - before) < 16
            await store.append(some("a"))
            await until(lambda: len(seen.positions) == len(got) == IDLE // 2)
            for task in tasks[IDLE // 2 :]:
                task.cancel()

    asyncio.run(main())
