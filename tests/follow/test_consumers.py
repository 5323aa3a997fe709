"""Consumers in threads and processes: one at a time has events, each is acknowledged, whoever sleeps, forgets or dies."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from consumers import QUERY, Process, Record, appending, judge, threads_of
from follow.following import some, until
from places import Place
from strandline import AsyncEventStore, EventStore, FollowerFailed, InvalidInput, SequencedEvent, Unavailable
from strandline.testing import ManualClock


def wanted(store: EventStore) -> list[int]:
    return [event.position for event in store.read(QUERY)]


def test_consumers_in_threads_and_processes_acknowledge_everything_once(kept: Place) -> None:
    records: list[Record] = []
    with kept.connect() as store:
        with appending(store):
            processes = [Process(kept, [f"process {number}a", f"process {number}b"]) for number in range(2)]
            until(lambda: all(process.is_ready for process in processes), "all have begun")
            until(lambda: store.count(QUERY) > 150)
        try:
            threads_of(store, ["thread 1", "thread 2"], records.append)
        finally:
            codes = [process.end() for process in processes]
        assert codes == [0, 0]
        judge([*records, *(each for process in processes for each in process.records)], wanted(store))
        assert store.find_follower("f").status().lag == 0


def test_whoever_is_killed_with_a_lease_others_go_on(kept: Place) -> None:
    with kept.connect() as store:
        processes = [Process(kept, [f"process {number}"]) for number in range(2)]
        killed: list[Process] = []
        try:
            with appending(store, 0.08):
                for _ in range(2):
                    victim = whoever_is_at_work([each for each in processes if each not in killed])
                    killed.append(victim)
                    victim.kill()
                    processes.append(Process(kept, [f"process {len(processes)}"]))
                whoever_is_at_work([each for each in processes if each not in killed])
        finally:
            codes = [process.end(wait=process not in killed) for process in processes]
        assert sorted(codes) == [-9, -9, 0, 0]
        judge([each for process in processes for each in process.records], wanted(store))
        assert store.find_follower("f").status().lag == 0


def whoever_is_at_work(processes: list[Process]) -> Process:
    """One of them that has a lease just now, or had one a moment ago."""
    before = [len(process.records) for process in processes]

    def at_work() -> list[Process]:
        return [each for each, count in zip(processes, before, strict=True) if len(each.records) > count]

    until(at_work, "a consumer has a lease")
    return at_work()[0]


HOLDER = """
import json, sys, time
sys.path.insert(0, sys.argv[3])
from places import Place

with Place(sys.argv[1], json.loads(sys.argv[2]).get("log")).connect() as store:
    lease = store.follower("f").lease(3, seconds=0.5)
    print(json.dumps([lease.token, lease.expires.isoformat()]), flush=True)
    time.sleep(60)
"""


def test_the_events_of_a_process_that_dies_go_to_another_after_their_time(kept: Place) -> None:
    tests = str(Path(__file__).parents[1])
    with kept.connect() as store:
        store.append(some("a", count=5))
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLDER, *kept.arguments, tests], stdout=subprocess.PIPE, text=True
        )
        assert holder.stdout is not None
        token, expires = json.loads(holder.stdout.readline())
        holder.kill()
        holder.communicate()
        lease = store.follower("f").lease(3, wait=20, seconds=7)
        assert lease is not None
        assert [event.position for event in lease.events] == [1, 2, 3]
        assert lease.expires >= datetime.fromisoformat(expires) + timedelta(seconds=7)
        with pytest.raises(FollowerFailed, match="is lost"):
            store.follower("f").ack(token)
        assert store.follower("f").ack(lease.token) == 3


def test_a_thousand_consumers_that_wait_cost_no_threads(store: EventStore) -> None:
    async def run() -> None:
        awaited = AsyncEventStore(store)
        await awaited.follower("f").lease()
        before = threading.active_count()
        waiting = [asyncio.create_task(awaited.follower("f").lease(wait=30)) for _ in range(1_000)]
        await asyncio.sleep(0.5)
        assert threading.active_count() < before + 20
        await awaited.append(some("a"))
        done, rest = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        assert [lease.result() is not None for lease in done] == [True]
        for each in rest:
            each.cancel()
        await asyncio.wait(rest)

    asyncio.run(run())


def test_a_consumer_that_is_cancelled_while_it_takes_leaves_the_events(place: Place) -> None:
    async def run(store: AsyncEventStore) -> None:
        await store.append(some("a"))
        follower, kind = store.follower("f"), type(store.store.engine.transaction())
        commit = kind.commit

        def commit_slowly(tx: object) -> None:
            commit(tx)  # type: ignore[arg-type]
            time.sleep(0.3)

        kind.commit = commit_slowly
        try:
            taking = asyncio.create_task(follower.lease(seconds=600))
            await asyncio.to_thread(
                until, lambda: [row for row in store.store.engine.followers("f") if row.owner]
            )
            taking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await taking
        finally:
            kind.commit = commit
        lease = await follower.lease(wait=10)
        assert lease is not None
        assert await follower.ack(lease.token) == 1

    async def main() -> None:
        async with place.connect_async() as store:
            await run(store)

    asyncio.run(main())


def test_a_lease_that_cannot_be_written_down_is_nobody_s(place: Place) -> None:
    with place.connect() as store:
        store.append(some("a"))
        follower, kind = store.follower("f"), type(store.engine.transaction())
        follower.pause()
        follower.resume()
        commit, calls = kind.commit, []

        def commit_and_lose_the_answer(tx: object) -> None:
            commit(tx)  # type: ignore[arg-type]
            calls.append("commit")
            if len(calls) == 1:
                raise Unavailable("who knows", written=None)

        kind.commit = commit_and_lose_the_answer
        try:
            with pytest.raises(Unavailable):
                follower.lease(seconds=600)
        finally:
            kind.commit = commit
        assert calls == ["commit", "commit"]
        lease = follower.lease()
        assert lease is not None


def test_the_owner_of_a_lease_does_not_tell_its_token(place: Place) -> None:
    clock = ManualClock()
    with place.connect(clock=clock) as store:
        store.append(some("a"))
        lease = store.follower("f").lease()
        assert lease is not None
        owner = store.find_follower("f").status().owner
        assert owner.startswith(f"{store.leases.owner}:lease-")
        assert owner.rpartition("-")[2] not in lease.token


def test_a_handler_cannot_lease_in_its_transaction(store: EventStore) -> None:
    store.append(some("a"))
    refusals: list[InvalidInput] = []

    def handle(events: list[SequencedEvent], tx: object) -> None:
        for use in (lambda: store.follower("g").lease(), lambda: store.follower("g").ack("x")):
            with pytest.raises(InvalidInput) as refusal:
                use()
            refusals.append(refusal.value)

    store.follower("f").catch_up(handle)
    assert len(refusals) == 2


def test_large_events_are_leased_a_few_at_a_time() -> None:
    import strandline

    with strandline.connect("memory:") as store:
        for _ in range(20):
            store.append(some("a", text="x" * 1_000_000))
        follower, seen = store.follower("f"), []
        while lease := follower.lease():
            seen.append([event.position for event in lease.events])
            assert lease.position == seen[-1][-1]
            follower.ack(lease.token)
        assert seen == [[*range(1, 9)], [*range(9, 17)], [17, 18, 19, 20]]
