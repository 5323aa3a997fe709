"""Subscriptions: catch up, then wait, until stopped or closed."""

from __future__ import annotations

import threading
from itertools import islice

import pytest

from ... import EventStore, InvalidQuery, Query
from ...reading import Subscription
from .kit import PATIENCE_SECONDS, happened, in_thread, is_refused, item, positions


def drain(subscription: Subscription, arrived: threading.Event) -> list[int]:
    """All positions until the subscription ends; tells when the first is there."""
    seen = []
    for event in subscription:
        seen.append(event.position)
        arrived.set()
    return seen


class Subscriptions:
    """Following the log as it grows."""

    def test_a_subscription_catches_up(self, store: EventStore) -> None:
        store.append([happened("A", "x" if n % 2 else "y") for n in range(6)])
        assert positions(islice(store.subscribe(), 6)) == [1, 2, 3, 4, 5, 6]
        assert positions(islice(store.subscribe(Query.tag("x"), after=2), 2)) == [4, 6]

    def test_a_subscription_catches_up_over_many_pages(self, store: EventStore) -> None:
        store.append([happened("A", "x") for _ in range(4_500)])
        assert positions(islice(store.subscribe(Query.tag("x")), 4_500)) == list(range(1, 4_501))

    def test_a_subscription_gets_what_is_written_while_it_waits(self, store: EventStore) -> None:
        store.append(happened("A", "x"))
        subscription = store.subscribe(Query.tag("x"))
        arrived = threading.Event()
        seen = in_thread(lambda: drain(subscription, arrived))
        assert arrived.wait(PATIENCE_SECONDS)
        for n in range(50):
            store.append(happened("A", "x" if n % 2 else "y"))
        last = store.append(happened("A", "x")).position
        final = in_thread(lambda: next(iter(store.subscribe(Query.tag("x"), after=last - 1))))
        assert final().position == last
        store.close()
        got = seen()
        assert got == sorted(set(got))
        assert got[0] == 1

    def test_a_subscription_misses_nothing_and_repeats_nothing(self, store: EventStore) -> None:
        subscriptions = [store.subscribe(Query.tag("x")) for _ in range(3)]
        readers = [in_thread(lambda s=s: positions(islice(s, 120))) for s in subscriptions]  # type: ignore[misc]

        def write() -> int:
            for _ in range(60):
                store.append([happened("A", "x"), happened("A", "y")])
            return 0

        writers = [in_thread(write) for _ in range(2)]
        assert [writer() for writer in writers] == [0, 0]
        expected = positions(store.read(Query.tag("x")))
        assert [reader() for reader in readers] == [expected] * 3

    def test_an_after_beyond_the_head_waits_for_what_lies_beyond(self, store: EventStore) -> None:
        store.append(happened("A"))
        subscription = store.subscribe(after=3)
        reader = in_thread(lambda: next(subscription).position)
        for _ in range(3):
            store.append(happened("A"))
        assert reader() == 4

    def test_stop_ends_a_waiting_subscription_from_another_thread(self, store: EventStore) -> None:
        store.append(happened())
        subscription, arrived = store.subscribe(), threading.Event()
        seen = in_thread(lambda: drain(subscription, arrived))
        assert arrived.wait(PATIENCE_SECONDS)
        subscription.stop()
        assert seen() == [1]
        assert list(subscription) == []
        store.append(happened())

    def test_stop_ends_a_subscription_between_two_events(self, store: EventStore) -> None:
        store.append([happened() for _ in range(5)])
        subscription = store.subscribe()
        next(subscription)
        subscription.stop()
        assert list(subscription) == []

    def test_leaving_the_block_stops_a_subscription(self, store: EventStore) -> None:
        store.append(happened())
        with store.subscribe() as subscription:
            assert next(subscription).position == 1
        assert list(subscription) == []

    def test_a_subscription_that_failed_goes_on_where_it_was(self, store: EventStore) -> None:
        store.append([happened("A", "x") for _ in range(3)])
        fails = [True]

        def only_then(_: object) -> bool:
            return 1 // (not fails.pop()) > 0 if fails else True

        query = Query.of(item("x", where=only_then))
        if is_refused(store, query):
            return
        subscription = store.subscribe(query)
        with pytest.raises(InvalidQuery, match="ZeroDivisionError"):
            next(subscription)
        assert positions(islice(subscription, 3)) == [1, 2, 3]

    def test_threads_that_share_a_subscription_get_different_events(self, store: EventStore) -> None:
        subscription = store.subscribe(Query.tag("x"))
        readers = [in_thread(lambda: drain(subscription, threading.Event())) for _ in range(3)]
        for _ in range(60):
            store.append([happened("A", "x"), happened("A", "y")])
        (last,) = islice(store.subscribe(Query.tag("x"), after=118), 1)
        while subscription._place.after < last.position:
            threading.Event().wait(0.001)
        store.append(happened("A", "x"))  # somebody takes this one, or it comes after the end
        subscription.stop()
        got = sorted(position for reader in readers for position in reader())
        assert got[:60] == positions(islice(store.subscribe(Query.tag("x")), 60))
        assert len(got) == len(set(got)) <= 61

    def test_stopping_one_leaves_the_others(self, store: EventStore) -> None:
        store.append(happened())
        one, other = store.subscribe(), store.subscribe()
        arrived = threading.Event()
        seen = in_thread(lambda: drain(one, arrived))
        others = in_thread(lambda: positions(islice(other, 2)))
        assert arrived.wait(PATIENCE_SECONDS)
        one.stop()
        assert seen() == [1]
        store.append(happened())
        assert others() == [1, 2]

    @pytest.mark.parametrize("attempt", range(5))
    def test_closing_the_store_ends_every_subscription(self, store: EventStore, attempt: int) -> None:
        store.append(happened())
        arrived = [threading.Event() for _ in range(3)]
        readers = [in_thread(lambda a=a: drain(store.subscribe(), a)) for a in arrived]  # type: ignore[misc]
        assert all(event.wait(PATIENCE_SECONDS) for event in arrived)
        if attempt % 2:
            store.append(happened())
        store.close()
        for reader in readers:
            seen = reader()
            assert seen == [1, 2][: len(seen)]

    def test_a_subscription_sees_the_present_tags_and_the_retags(self, store: EventStore) -> None:
        store.append(happened("A", "x"))
        store.retag([1], add=["y"])
        assert positions(islice(store.subscribe(Query.tag("y")), 1)) == [1]
        assert [event.type for event in islice(store.subscribe(), 2)] == ["A", "$retagged"]
