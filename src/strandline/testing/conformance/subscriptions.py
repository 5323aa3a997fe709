"""Subscriptions: catch up, then wait, until stopped or closed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from itertools import islice

import pytest

from ... import Batch, Event, EventStore, InvalidInput, InvalidQuery, Query, SequencedEvent
from ...subscription import Subscription
from .kit import PATIENCE_SECONDS, happened, in_thread, is_refused, item, positions

MANY = 6_000  # more than any engine keeps for a subscription that does not take them


def drain(subscription: Subscription, arrived: threading.Event) -> list[int]:
    """All positions until the subscription ends; tells when the first is there."""
    seen = []
    for event in subscription:
        seen.append(event.position)
        arrived.set()
    return seen


def until_position(batches: Iterable[Batch], position: int) -> list[Batch]:
    """The batches up to the one that has looked as far as a position."""
    seen = []
    for batch in batches:
        seen.append(batch)
        if batch.position >= position:
            return seen
    raise AssertionError(f"it ended at {seen[-1:]}")


def events_of(batches: Iterable[Batch]) -> list[SequencedEvent]:
    """The events of the batches."""
    return [event for batch in batches for event in batch.events]


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

    def test_a_waiting_subscription_hears_of_every_kind_of_match(self, store: EventStore) -> None:
        store.append(happened("A", "first"))
        queries = [
            Query.all(),
            Query.user(),
            Query.tag("x"),
            Query.tag("x", "y"),
            Query.types("A", "B"),
            Query.stream("s"),
            Query.subject("u"),
            Query.types("$retagged"),
            Query.of(item(key="k")),
            Query.of(item("x", types=["A"])),
            Query.of(item(exclude_types=["A"])),
            Query.of(item("x", exclude_types=["B"])),
            Query.of(item("x"), item(types=["C"]), item(stream="s", subject="u")),
            Query.of(item(where={"n": {"$gte": 2}})),
            Query.of(item("x", where={"n": 1}), item("y")),
            Query.tag("first"),
        ]
        by_callable = Query.of(item(types=["A"], where=lambda event: event.json()["n"] == 2))
        if not is_refused(store, by_callable):
            queries.append(by_callable)
        subscriptions = [store.subscribe(query, after=1) for query in queries]
        batches = [subscription.batches(0.02) for subscription in subscriptions]
        assert [next(each) for each in batches] == [Batch([], 1)] * len(queries)  # they wait at the tail now
        store.append(
            [
                Event(type, {"n": n}, tags=tags, stream=stream, subject=subject)
                for type in ("A", "B", "C")
                for n in range(3)
                for tags in ((), ("x",), ("x", "y"))
                for stream, subject in ((None, None), ("s", "u"), ("s", "v"))
            ]
        )
        store.append(happened("A", "z", n=7).with_key("k"))
        head = store.retag([1], add=["later"]).position
        for query, each in zip(queries, batches, strict=True):
            heard = events_of(until_position(each, head))
            assert heard == list(store.read(query, after=1)), query

    def test_a_subscription_that_takes_nothing_for_long_gets_everything_later(
        self, store: EventStore
    ) -> None:
        every, few = store.subscribe(), store.subscribe(Query.tag("x"))
        store.append(happened("A", "x"))
        for subscription in (every, few):
            assert next(subscription).position == 1
            assert next(subscription.batches(0.01)) == Batch([], 1)  # it waits at the tail now
        for n in range(MANY // 500):
            store.append([happened("A", "x" if n % 2 else "y") for _ in range(500)])
        assert positions(islice(every, MANY)) == list(range(2, MANY + 2))
        expected = positions(store.read(Query.tag("x"), after=1))
        assert positions(islice(few, len(expected))) == expected
        last = store.append(happened("A", "x")).position
        assert (next(every).position, next(few).position) == (last, last)

    def test_a_subscription_whose_matcher_fails_while_it_waits_goes_on_where_it_was(
        self, store: EventStore
    ) -> None:
        fails = [True]

        def only_then(event: SequencedEvent) -> bool:
            return 1 // (event.position != 3 or not fails.pop()) > 0 if fails else True

        query = Query.of(item("x", where=only_then))
        if is_refused(store, query):
            return
        subscription = store.subscribe(query)
        assert next(subscription.batches(0.01)) == Batch([], 0)
        store.append([happened("A", "x"), happened("A", "y"), happened("A", "x")])
        with pytest.raises(InvalidQuery, match="ZeroDivisionError"):
            positions(islice(subscription, 2))
        assert positions(islice(subscription, 2)) in ([1, 3], [3])  # it may have been given the first before

    def test_batches_come_in_order_and_say_how_far_they_looked(self, store: EventStore) -> None:
        store.append([happened("A", "x" if n % 3 else "y") for n in range(90)])
        batches = store.subscribe(Query.tag("x"), after=5).batches(seconds=0.02, size=7)
        seen = until_position(batches, 90)
        assert events_of(seen) == list(store.read(Query.tag("x"), after=5))
        assert all(len(batch.events) <= 7 for batch in seen)
        assert all(batch.position >= batch.events[-1].position for batch in seen if batch.events)
        reached = [batch.position for batch in seen]
        assert reached == sorted(reached)
        assert next(batches) == Batch([], 90)
        store.append([happened("A", "y"), happened("A", "x"), happened("A", "y")])
        assert positions(events_of(until_position(batches, 93))) == [92]
        store.append([happened("A", "y") for _ in range(10)])
        later = until_position(batches, 103)
        assert events_of(later) == []
        assert later[-1].position == 103

    def test_a_batch_without_events_comes_when_its_time_is_up(self, store: EventStore) -> None:
        began = time.monotonic()
        batches = store.subscribe(after=3).batches(seconds=0.05)
        assert [next(batches), next(batches)] == [Batch([], 3), Batch([], 3)]
        assert time.monotonic() - began >= 0.1

    def test_a_batch_comes_as_soon_as_there_is_an_event(self, store: EventStore) -> None:
        batches = store.subscribe(Query.tag("x")).batches(seconds=PATIENCE_SECONDS * 5)
        first = in_thread(lambda: next(batches))
        store.append(happened("A", "x"))
        assert positions(first().events) == [1]

    def test_to_go_on_from_the_position_of_a_batch_misses_and_repeats_nothing(
        self, store: EventStore
    ) -> None:
        def write() -> int:
            return sum(store.append([happened("A", f"k:{n % 3}") for n in range(5)]).count for _ in range(60))

        writers = [in_thread(write) for _ in range(2)]
        seen: list[SequencedEvent] = []
        reached = 0
        while reached < 600:
            with store.subscribe(Query.tag("k:1"), after=reached) as subscription:
                for batch in islice(subscription.batches(seconds=0.01, size=9), 3):
                    seen += batch.events
                    reached = batch.position
        assert [writer() for writer in writers] == [300, 300]
        assert positions(seen) == positions(store.read(Query.tag("k:1")))

    @pytest.mark.parametrize("ends_by", ["stop", "close"])
    def test_batches_end_with_the_subscription(self, store: EventStore, ends_by: str) -> None:
        store.append(happened())
        subscription, arrived = store.subscribe(), threading.Event()

        def drain_batches() -> list[int]:
            seen = []
            for batch in subscription.batches(seconds=PATIENCE_SECONDS * 5):
                seen += positions(batch.events)
                arrived.set()
            return seen

        ended = in_thread(drain_batches)
        assert arrived.wait(PATIENCE_SECONDS)
        if ends_by == "stop":
            subscription.stop()
        else:
            store.close()
        assert ended() == [1]
        assert list(subscription.batches()) == []

    def test_batches_and_single_events_share_a_place(self, store: EventStore) -> None:
        store.append([happened() for _ in range(9)])
        subscription = store.subscribe()
        batches = subscription.batches(size=3)
        assert next(subscription).position == 1
        assert positions(next(batches).events) == [2, 3, 4]
        assert next(subscription).position == 5
        assert next(batches) == Batch(list(store.read(after=5, until=8)), 8)
        assert next(subscription).position == 9

    @pytest.mark.parametrize(
        "wrong",
        [
            {"seconds": 0},
            {"seconds": -1.0},
            {"seconds": float("nan")},
            {"seconds": float("inf")},
            {"seconds": "1"},
            {"seconds": True},
            {"size": 0},
            {"size": 1.5},
            {"size": True},
            {"size": 1_000_000},
        ],
    )
    def test_a_batch_has_a_time_and_a_size(self, store: EventStore, wrong: dict[str, object]) -> None:
        with pytest.raises(InvalidInput):
            store.subscribe().batches(**wrong)  # type: ignore[arg-type]
