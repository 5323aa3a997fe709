"""Leases: consumers take events one at a time, and acknowledge them with a token that only they have."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from ... import AsyncEventStore, Event, EventStore, Query, QueryItem, connect
from ...errors import FollowerFailed, InvalidInput, NotFound
from ...follow import Follower, Leased
from ..clock import START, ManualClock
from .kit import PATIENCE_SECONDS, OpenStore, happened, in_thread, positions


def leased(follower: Follower, *arguments: Any, **options: Any) -> Leased:
    """A lease, which there must be."""
    found = follower.lease(*arguments, **options)
    assert found is not None
    return found


def is_lost(follower: Follower, token: str) -> bool:
    """Whether the token is refused for every use, because the lease is lost."""
    before = follower.status(), follower.dead_letters()
    uses: list[Callable[[], int]] = [
        lambda: follower.ack(token),
        lambda: follower.ack(token, 0),
        lambda: follower.give_up(token, 1, "no"),
    ]
    refused = 0
    for use in uses:
        try:
            use()
        except FollowerFailed as error:
            refused += (error.status, "lease again" in error.hint) == (409, True)
    assert refused in (0, len(uses))
    assert (follower.status().position, follower.dead_letters()) == (before[0].position, before[1])
    return refused > 0


class Leasing:
    """One consumer at a time has the next events of a follower."""

    def test_a_lease_has_the_next_events_in_order(self, open_store: OpenStore) -> None:
        store = open_store(clock=ManualClock())
        store.append(
            [happened("A", "x"), happened("B"), happened("A", "x"), happened("A", "x"), happened("B")]
        )
        follower = store.follower("f", Query.tag("x"))
        first = leased(follower, 2, seconds=60)
        assert (positions(first.events), first.position) == ([1, 3], 3)
        assert first.events == list(store.read(Query.tag("x"), limit=2))
        assert first.expires == START + timedelta(seconds=60)
        assert (follower.status().position, follower.status().state) == (0, "running")
        assert follower.ack(first.token) == 3
        assert (follower.status().position, follower.status().state) == (3, "idle")
        second = leased(follower)
        assert (positions(second.events), second.position) == ([4], 5)
        assert follower.ack(second.token) == 5
        assert follower.lease() is None
        assert follower.status().lag == 0

    def test_while_one_has_it_there_is_nothing_for_others(self, store: EventStore) -> None:
        store.append([happened(), happened()])
        first = leased(store.follower("f"), 1)
        assert store.follower("f").lease() is None
        assert store.follower("f").lease(wait=0.05) is None
        assert positions(leased(store.follower("other")).events) == [1, 2]
        store.follower("f").ack(first.token)
        assert positions(leased(store.follower("f")).events) == [2]

    def test_a_part_may_be_acknowledged(self, open_store: OpenStore) -> None:
        clock = ManualClock()
        store = open_store(clock=clock)
        store.append([happened("A", "x"), happened("A", "x"), happened("A", "x"), happened("B")])
        follower = store.follower("f", Query.tag("x"))
        first = leased(follower, seconds=60)
        assert first.position == 4
        clock.move(50)
        assert follower.ack(first.token, 1) == 1
        clock.move(50)  # the lease began again
        assert follower.lease() is None
        assert follower.ack(first.token, 0) == 1  # and again
        clock.move(50)
        assert follower.lease() is None
        assert follower.ack(first.token, 2) == 2
        with pytest.raises(InvalidInput, match="ends at position 4"):
            follower.ack(first.token, 5)
        clock.move(61)
        second = leased(follower)
        assert (positions(second.events), is_lost(follower, first.token)) == ([3], True)
        assert follower.ack(second.token, 3) == 4  # its last event: there is nothing to wait for
        assert (follower.lease(), follower.status().state) == (None, "idle")

    def test_what_was_acknowledged_may_be_acknowledged_again(self, store: EventStore) -> None:
        store.append([happened(), happened()])
        follower = store.follower("f")
        lease = leased(follower)
        assert [follower.ack(lease.token), follower.ack(lease.token), follower.ack(lease.token, 1)] == [
            2,
            2,
            2,
        ]
        store.append(happened())
        later = leased(follower)
        assert is_lost(follower, lease.token)
        assert follower.ack(later.token) == 3

    def test_an_expired_lease_may_be_taken_by_another(self, open_store: OpenStore) -> None:
        clock = ManualClock()
        store = open_store(clock=clock)
        store.append([happened(), happened()])
        follower = store.follower("f")
        first = leased(follower, seconds=10)
        clock.move(9.9)
        assert follower.lease() is None
        clock.move(0.2)
        second = leased(follower, seconds=10)
        assert second.events == first.events
        assert second.token != first.token
        assert is_lost(follower, first.token)
        clock.move(11)  # nobody else wants them
        assert follower.ack(second.token) == 2

    def test_the_checkpoint_passes_what_does_not_match(self, store: EventStore) -> None:
        store.append([happened("A") for _ in range(30)])
        follower = store.follower("f", Query.types("B"))
        assert follower.lease() is None
        assert (follower.status().position, follower.status().owner) == (30, "")
        store.append([happened("A"), happened("B"), happened("A")])
        lease = leased(follower)
        assert (positions(lease.events), lease.position) == ([32], 33)
        assert follower.ack(lease.token) == 33

    def test_it_waits_for_events(self, store: EventStore) -> None:
        follower = store.follower("f", Query.types("B"))
        store.append(happened("A"))
        begun = time.monotonic()
        assert follower.lease(wait=0.2) is None
        assert time.monotonic() - begun >= 0.19
        waiting = in_thread(lambda: store.follower("f", Query.types("B")).lease(wait=PATIENCE_SECONDS))
        store.append(happened("A"))
        time.sleep(0.05)
        store.append([happened("B"), happened("A")])
        found = waiting()
        assert found is not None
        assert positions(found.events) == [3]

    def test_it_waits_for_another_consumer(self, store: EventStore) -> None:
        store.append([happened(), happened()])
        first = leased(store.follower("f"), 1)
        waiting = in_thread(lambda: store.follower("f").lease(wait=PATIENCE_SECONDS))
        time.sleep(0.05)
        store.follower("f").ack(first.token)
        found = waiting()
        assert found is not None
        assert positions(found.events) == [2]

    def test_an_event_may_be_given_up(self, store: EventStore) -> None:
        store.append(
            [happened("A", "x"), happened("A", "x"), happened("B"), happened("A", "x"), happened("B")]
        )
        follower = store.follower("f", Query.tag("x"))
        lease = leased(follower)
        assert follower.give_up(lease.token, 2, "no such account") == 2
        (letter,) = follower.dead_letters()
        assert (letter.follower, letter.position, letter.error) == ("f", 2, "no such account")
        assert (letter.attempts, letter.traceback) == (1, "")
        assert follower.give_up(lease.token, 2, "again") == 2  # a repeat changes nothing
        for position in (1, 3, 5, 6, 0, 99):  # acknowledged, of another type, behind the last one, not there
            with pytest.raises(InvalidInput, match="not one of those that were leased"):
                follower.give_up(lease.token, position, "no")
        assert follower.give_up(lease.token, 4, ValueError("odd")) == 5
        assert follower.dead_letters()[0] == letter
        assert "ValueError: odd" in follower.dead_letters()[1].traceback
        assert (follower.dead_letters()[1].error, follower.lease()) == ("ValueError: odd", None)
        seen: list[int] = []
        follower.replay(2, lambda events, _: seen.extend(positions(events)), in_transaction=False)
        follower.discard(4)
        assert (seen, follower.dead_letters()) == ([2], [])

    def test_a_token_is_good_for_one_follower_of_one_log(self, store: EventStore) -> None:
        store.append(happened())
        follower = store.follower("f")
        token = leased(follower).token
        leased(store.follower("g"))
        with connect("memory:") as other:
            other.append(happened())
            foreign = leased(other.follower("f")).token
        garbled = [token[:i] + ("A" if c != "A" else "B") + token[i + 1 :] for i, c in enumerate(token)]
        bad: list[Any] = ["", "x", "ä", "\0", token[:-1], token + "A", token + "=", token * 2, token.upper()]
        for wrong in [*bad, *garbled, foreign, None, 1, token.encode(), [token]]:
            for use in (follower.ack, lambda text: follower.give_up(text, 1, "no")):
                with pytest.raises(InvalidInput, match="no token of a lease of follower 'f'"):
                    use(wrong)
        with pytest.raises(InvalidInput, match="no token of a lease of follower 'g'"):
            store.follower("g").ack(token)
        assert follower.ack(token) == 1

    @pytest.mark.parametrize("steer", ["pause", "pause and resume", "reset", "forget", "forget and lease"])
    def test_steering_ends_a_lease(self, store: EventStore, steer: str) -> None:
        store.append([happened(), happened()])
        follower = store.follower("f")
        lease = leased(follower)
        other = store.find_follower("f")
        if steer.startswith("pause"):
            other.pause()
        elif steer == "reset":
            other.reset(1)
        else:
            other.forget()
        if steer == "pause":
            assert follower.lease() is None
            assert follower.lease(wait=0.05) is None
        if steer == "pause and resume":
            other.resume()
        if steer == "forget and lease":
            leased(follower, 1)
        assert is_lost(follower, lease.token)
        assert follower.status().position == (1 if steer == "reset" else 0)

    def test_a_run_waits_for_a_lease_and_a_lease_for_a_run(self, open_store: OpenStore) -> None:
        clock = ManualClock()
        store = open_store(clock=clock)
        store.append(happened())
        lease = leased(store.follower("f"), seconds=60)
        seen: list[int] = []
        follower, begun = store.follower("f"), threading.Event()

        def handle(events: Any, _: Any) -> None:
            seen.extend(positions(events))
            assert store.follower("f").lease() is None  # outside a transaction a handler may write
            begun.set()

        running = in_thread(lambda: follower.run(handle, in_transaction=False))
        assert not begun.wait(0.2)
        clock.move(61)
        assert begun.wait(PATIENCE_SECONDS)
        with pytest.raises(FollowerFailed, match="is lost"):
            store.follower("f").ack(lease.token)
        follower.stop()
        assert running() == 1
        assert seen == [1]

    def test_a_retag_of_what_was_read_ends_it_until_a_reset(self, store: EventStore) -> None:
        store.append([happened("A", "x"), happened("A", "x"), happened("A", "y")])
        follower = store.follower("f", Query.tag("x"))
        lease = leased(follower, 1)
        store.retag([3], add=["z"])  # concerns no event that was read
        follower.ack(lease.token)
        store.retag([2], add=["z"])  # is still to come
        follower.ack(leased(follower).token)
        store.retag([3], add=["x"])
        for _ in range(2):
            with pytest.raises(FollowerFailed, match="the retag at 6 changed an event") as refusal:
                follower.lease()
            assert (refusal.value.status, "reset" in refusal.value.hint) == (409, True)
        assert (follower.status().state, follower.status().position) == ("failed", 5)
        follower.reset(0)
        assert positions(leased(follower).events) == [1, 2, 3]

    def test_a_new_follower_begins_where_it_is_told_and_keeps_its_query(self, store: EventStore) -> None:
        store.append([happened("A"), happened("A"), happened("B")])
        assert positions(leased(store.follower("f", Query.types("A"), after=1)).events) == [2]
        assert store.find_follower("f").query == Query.types("A")
        with pytest.raises(FollowerFailed, match="another query"):
            store.follower("f", Query.types("B")).lease()
        with pytest.raises(InvalidInput, match="head of this log is 3"):
            store.follower("g", after=4).lease()
        with pytest.raises(NotFound):
            store.find_follower("g")

    def test_by_name_alone_the_kept_query_is_leased(self, store: EventStore) -> None:
        store.append([happened("A"), happened("B")])
        odd = Query.of(QueryItem(where=lambda data: True))
        store.follower("f", Query.types("B")).pause()
        store.follower("odd", odd).pause()
        for name in ("f", "odd"):
            store.find_follower(name).resume()
        lease = leased(store.find_follower("f"))
        assert positions(lease.events) == [2]
        assert store.find_follower("f").ack(lease.token) == 2
        with pytest.raises(InvalidInput, match="has a function in it"):
            store.find_follower("odd").lease()
        lease = leased(store.follower("odd", odd))
        assert positions(lease.events) == [1, 2]
        assert store.find_follower("odd").give_up(lease.token, 1, "no") == 1

    def test_a_bad_lease_is_refused(self, store: EventStore) -> None:
        store.append(happened())
        bad: list[dict[str, Any]] = [{"batch": value} for value in (0, -1, True, "1", 1.5, None)]
        bad += [{"wait": value} for value in (-1, True, "1", None, float("nan"))]
        bad += [{"seconds": value} for value in (0, -1, "1", None, 86_401, float("nan"))]
        for options in bad:
            with pytest.raises(InvalidInput):
                store.follower("f").lease(**options)
        assert store.followers() == []

    def test_of_many_consumers_each_event_goes_to_one(self, store: EventStore) -> None:
        total = 60

        def consume() -> list[list[int]]:
            taken: list[list[int]] = []
            follower = store.follower("f", Query.types("A"))
            while (lease := follower.lease(4, wait=1)) is not None:
                taken.append(positions(lease.events))
                follower.ack(lease.token)
            return taken

        calls = [in_thread(consume) for _ in range(4)]
        for _ in range(total // 2):
            store.append([happened("A"), happened("B"), happened("A")])
        batches = sorted(batch for call in calls for batch in call())
        assert [position for batch in batches for position in batch] == positions(
            store.read(Query.types("A"))
        )

    def test_leases_are_the_same_awaited(self, store: EventStore) -> None:
        async def run() -> None:
            awaited = AsyncEventStore(store)
            await awaited.append([happened("A"), happened("A"), happened("A")])
            follower = awaited.follower("f")
            lease = await follower.lease(2, wait=5, seconds=20)
            assert lease is not None
            assert positions(lease.events) == [1, 2]
            assert await follower.lease() is None
            waiting = asyncio.create_task((await awaited.find_follower("f")).lease(wait=PATIENCE_SECONDS))
            await asyncio.sleep(0.02)
            assert await follower.give_up(lease.token, 1, "odd") == 1
            assert not waiting.done()
            assert await follower.ack(lease.token) == 2
            lease = await waiting
            assert lease is not None
            assert positions(lease.events) == [3]
            assert await follower.ack(lease.token, 3) == 3
            with pytest.raises(InvalidInput):
                await follower.ack("x")
            waiting = asyncio.create_task(follower.lease(wait=PATIENCE_SECONDS))
            await asyncio.sleep(0.02)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert await follower.lease() is None
            await awaited.append(Event("A", {}))
            assert (await asyncio.gather(*(follower.lease() for _ in range(8)))).count(None) == 7

        asyncio.run(run())
