"""The tail: each new event is read once for all subscriptions, and none of them misses or repeats one."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from places import Place
from racing import some_event, some_query
from strandline import (
    AsyncEventStore,
    Batch,
    CorruptLog,
    Event,
    EventStore,
    Query,
    QueryItem,
    SequencedEvent,
    Unavailable,
)
from strandline.engine import Page, Span, tail
from strandline.engine.interests import Interests
from strandline.engine.memory import MemoryEngine
from strandline.engine.rules import Time
from strandline.subscription import Subscription
from strandline.testing.strategies import events, queries, query_items

PATIENCE = 30


def happened(*tags: str) -> Event:
    return Event("Happened", {}, tags=tags)


def positions(events: Any, size: int) -> list[int]:
    return [event.position for event in islice(events, size)]


def until(is_so: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.001)


def waiting(store: EventStore, query: Query | None = None, after: int = 0) -> Subscription:
    """A subscription that has caught up and waits at the tail."""
    subscription = store.subscribe(query, after=after)
    until(lambda: not next(subscription.batches(0.01)).events and has_joined(subscription))
    return subscription


def has_joined(subscription: Subscription) -> bool:
    inbox = subscription._place._inbox
    return inbox is not None and inbox.since is not None


class Reader(threading.Thread):
    """Takes events of a subscription until it has so many."""

    def __init__(self, subscription: Subscription, size: int) -> None:
        super().__init__(daemon=True)
        self._subscription, self._size = subscription, size
        self.seen: list[int] = []
        self.start()

    def run(self) -> None:
        for event in islice(self._subscription, self._size):
            self.seen.append(event.position)

    def ended(self) -> list[int]:
        self.join(PATIENCE)
        assert not self.is_alive(), self.seen
        return self.seen


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """So small that every reader is too slow now and then."""
    monkeypatch.setattr(tail, "WINDOW_EVENTS", 12)
    monkeypatch.setattr(tail, "NEWS_BYTES", 200)
    monkeypatch.setattr(tail, "PAGE_EVENTS", 7)
    monkeypatch.setattr(tail, "PAUSE_SECONDS", 0.0)


def nothing(number: int, call: str) -> None:
    """Let a call of the engine be."""


class Watched(MemoryEngine):
    """A memory engine that does something at a certain one of its calls that read, and counts those."""

    def __init__(self) -> None:
        super().__init__(Time())
        self.calls: list[str] = []
        self.at_call: Callable[[int, str], None] = nothing

    def head(self) -> int:
        self._begin_call("head")
        head = super().head()
        self._begin_call("after head")
        return head

    def read_page(self, query: Query, span: Span, size: int) -> Page:
        self._begin_call("read")
        page = super().read_page(query, span, size)
        self._begin_call("after read")
        return page

    def _begin_call(self, name: str) -> None:
        call = f"{name} in {threading.current_thread().name}"
        self.calls.append(call)
        self.at_call(len(self.calls), call)


@pytest.fixture
def engine() -> Watched:
    return Watched()


def append_unheard(engine: MemoryEngine, *events: Event) -> None:
    """Append as another process would: nobody is told."""
    other = EventStore(engine)
    other.append(list(events))


def test_an_event_at_any_moment_of_joining_is_delivered_once() -> None:
    for moment in count(1):
        engine = Watched()
        with EventStore(engine) as store:
            store.append(happened("x"))
            happens = threading.Event()

            def at_call(number: int, call: str) -> None:
                if number == moment:  # noqa: B023
                    append_unheard(engine, happened("x"), happened("y"), happened("x"))  # noqa: B023
                    happens.set()  # noqa: B023

            engine.calls.clear()
            engine.at_call = at_call
            subscription = store.subscribe(Query.tag("x"))
            reader = Reader(subscription, 4)
            until(lambda: happens.is_set() or is_at_rest(store, subscription))  # noqa: B023
            engine.at_call = nothing
            if not happens.is_set():
                assert moment >= 6, engine.calls
                return
            store.append([happened("y"), happened("x")])
            assert reader.ended() == [1, 2, 4, 6]


def is_at_rest(store: EventStore, subscription: Subscription) -> bool:
    """Whether it has joined, and nobody reads the log."""
    return has_joined(subscription) and store.tail._bell in store.watch._waiters


def test_each_event_is_read_once_for_all(engine: Watched) -> None:
    with EventStore(engine) as store:
        subscriptions = [waiting(store, Query.tag(f"k:{n}")) for n in range(50)]
        readers = [Reader(subscription, 2) for subscription in subscriptions]
        until(lambda: all(subscription._place._inbox for subscription in subscriptions))
        engine.calls.clear()
        for _ in range(2):
            store.append([happened(f"k:{n}") for n in range(50)])
        assert [reader.ended() for reader in readers] == [[n + 1, n + 51] for n in range(50)]
        reads = [call for call in engine.calls if call.startswith("read")]
        assert reads
        assert all(call == "read in strandline-tail" for call in reads)
        assert len(reads) <= 5


def test_without_subscriptions_there_is_no_tail(engine: Watched) -> None:
    with EventStore(engine) as store:
        store.append(happened())
        assert positions(store.subscribe(), 1) == [1]
        engine.calls.clear()
        store.append(happened())
        assert engine.calls == []
        assert store.tail._thread is None


def test_a_subscription_that_nobody_holds_leaves_the_tail(place: Place) -> None:
    with place.connect() as store:
        kept = waiting(store, Query.tag("kept"))
        dropped = [waiting(store, Query.tag("dropped")) for _ in range(3)]
        stopped = waiting(store, Query.tag("stopped"))
        until(lambda: len(store.tail._interests.askers()) == 5)
        stopped.stop()
        dropped.clear()
        gc.collect()
        until(lambda: len(store.tail._interests.askers()) == 1)
        assert len(store.tail._inboxes) == 1
        store.append(happened("kept", "dropped", "stopped"))
        assert positions(kept, 1) == [1]
        kept.stop()
        until(lambda: not store.tail._interests)
        until(lambda: not store.tail._window._order)


def test_what_waits_for_slow_subscriptions_is_bounded(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "WINDOW_EVENTS", 20)
    monkeypatch.setattr(tail, "WINDOW_BYTES", 5_000)
    with place.connect() as store:
        slow = [waiting(store), waiting(store, Query.tag("x"))]
        inboxes = [subscription._place._inbox for subscription in slow]
        for size in (10, 2_000, 9_000):
            for _ in range(30):
                store.append(Event("A", b"x" * size, tags=["x"]))
        until(lambda: all(inbox is not None and inbox.until is not None for inbox in inboxes))
        window = store.tail._window
        assert len(window._order) == len(window._events) <= 20
        assert window._bytes <= 9_001  # one event is kept whatever its size
        assert all(inbox is not None and len(inbox.positions) <= 20 + 90 for inbox in inboxes)
        assert not store.tail._inboxes
        for subscription in slow:
            assert positions(subscription, 90) == list(range(1, 91))


def test_news_that_cannot_be_read_just_now_come_later(engine: Watched) -> None:
    with EventStore(engine) as store:
        subscription = waiting(store)
        fails = [True]

        def fail(number: int, call: str) -> None:
            if fails and "strandline-tail" in call:
                raise Unavailable("the disk is away", written=None)

        engine.at_call = fail
        reader = Reader(subscription, 3)
        store.append([happened(), happened()])
        engine.calls.clear()
        until(lambda: sum("strandline-tail" in call for call in engine.calls) > 2)
        assert reader.seen == []
        fails.clear()
        store.append(happened())
        assert reader.ended() == [1, 2, 3]


@pytest.mark.parametrize("error", [CorruptLog("damaged"), ValueError("a mistake of ours")])
def test_an_error_of_the_log_reaches_every_subscription(engine: Watched, error: Exception) -> None:
    with EventStore(engine) as store:
        subscriptions = [waiting(store) for _ in range(3)]

        def fail(number: int, call: str) -> None:
            if "read in" in call:
                raise error

        engine.at_call = fail
        store.append(happened())
        for subscription in subscriptions:
            for _ in range(2):
                with pytest.raises(type(error)):
                    next(subscription)
        engine.at_call = nothing
        for subscription in subscriptions:
            assert next(subscription).position == 1
        store.append(happened())
        for subscription in subscriptions:
            assert next(subscription).position == 2


def test_an_error_while_a_subscription_joins_reaches_it(engine: Watched) -> None:
    with EventStore(engine) as store:

        def fail(number: int, call: str) -> None:
            if "strandline-tail" in call or number > 10:
                raise CorruptLog("damaged")

        engine.at_call = fail
        with pytest.raises(CorruptLog):
            next(store.subscribe())


NAMES = st.sampled_from(["a", "b", "c"])
SMALL_EVENTS = events(types=NAMES, tags=NAMES, streams=NAMES, subjects=NAMES, keys=NAMES)
SMALL_ITEMS = query_items(types=NAMES, tags=NAMES, streams=NAMES, subjects=NAMES, keys=NAMES)


@given(
    st.lists(SMALL_EVENTS, min_size=1, max_size=8),
    st.lists(queries(SMALL_ITEMS) | st.just(Query.all()) | st.just(Query.user()), min_size=1, max_size=6),
    st.data(),
)
def test_the_index_finds_every_query_that_matches_and_where_aside_no_other(
    written: list[Event], asked: list[Query], data: st.DataObject
) -> None:
    log = [SequencedEvent.of(event, n, 0) for n, event in enumerate([*written, Event("c", 1)], 1)]
    interests = Interests[int]()
    for number, query in enumerate(asked):
        interests.add(number, query)
    gone = data.draw(st.sets(st.integers(0, len(asked) - 1)))
    for number in gone:
        interests.remove(number)
    expected = {
        event.position: {
            n for n, query in enumerate(asked) if n not in gone and _outline(query).matches(event)
        }
        for event in log
    }
    found = {event.position: set(askers) for event, askers in interests.matches(log)}
    assert found == {position: askers for position, askers in expected.items() if askers}
    for number in range(len(asked)):
        interests.remove(number)
    assert not interests
    assert list(interests.matches(log)) == []
    assert not any([interests._by_tag, interests._by_type, interests._by_stream, interests._any])


def _outline(query: Query) -> Query:
    return Query(
        QueryItem(i.types, i.tags, i.exclude_types, i.stream, i.subject, None, i.key) for i in query.items
    )


WRITE = """
import json, random, sys
sys.path.insert(0, sys.argv[4])
import strandline
from racing import some_event
print("ready", flush=True); sys.stdin.readline()
rng = random.Random(int(sys.argv[3]))
with strandline.connect(sys.argv[1], **json.loads(sys.argv[2])) as store:
    for _ in range(120):
        store.append([some_event(rng) for _ in range(rng.randrange(1, 6))])
"""


def start_writer(place: Place, seed: int) -> subprocess.Popen[str]:
    arguments = [*place.arguments, str(seed), str(Path(__file__).parent)]
    process = subprocess.Popen(
        [sys.executable, "-c", WRITE, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def write(store: EventStore, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(120):
        store.append([some_event(rng) for _ in range(rng.randrange(1, 6))])
        if rng.random() < 0.05:
            time.sleep(rng.random() / 100)


class Follower:
    """Reads a log in some way until it has looked so far, and begins again where it was now and then."""

    def __init__(self, store: EventStore, seed: int) -> None:
        self._store = store
        self._rng = random.Random(seed)
        self.query = self._rng.choice([Query.all(), Query.user(), *(some_query(self._rng) for _ in range(6))])
        self.after = self._rng.randrange(30)
        self.seen: list[SequencedEvent] = []
        self.end: int | None = None

    def follow(self) -> None:
        reached = self.after
        while self.end is None or reached < self.end:
            with self._store.subscribe(self.query, after=reached) as subscription:
                batches = subscription.batches(seconds=0.01, size=self._rng.choice([1, 3, 50]))
                for batch in islice(batches, self._rng.choice([1, 5, 1_000])):
                    reached = self._take(batch)
                    if self.end is not None and reached >= self.end:
                        break

    async def follow_async(self, store: Any) -> None:
        reached = self.after
        while self.end is None or reached < self.end:
            async with store.subscribe(self.query, after=reached) as subscription:
                left = self._rng.choice([1, 5, 1_000])
                async for batch in subscription.batches(seconds=0.01, size=self._rng.choice([1, 3, 50])):
                    reached = self._take(batch)
                    left -= 1
                    if not left or (self.end is not None and reached >= self.end):
                        break

    def _take(self, batch: Batch) -> int:
        self.seen += batch.events
        if self._rng.random() < 0.1:
            time.sleep(self._rng.random() / 100)
        return batch.position


def follow_all(place: Place, store: EventStore, followers: list[Follower]) -> None:
    """In an event loop of its own, half of them through another store of the same log."""

    async def follow() -> None:
        own = AsyncEventStore(store)
        async with contextlib.AsyncExitStack() as stack:
            other = own
            if place.url != "memory:":
                other = await stack.enter_async_context(place.connect_async())
            await asyncio.gather(
                *(follower.follow_async(other if n % 2 else own) for n, follower in enumerate(followers))
            )

    asyncio.run(follow())


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("seed", range(2))
def test_random_subscriptions_get_what_a_read_finds_while_threads_and_a_process_append(
    place: Place, seed: int
) -> None:
    with place.connect() as store:
        process = None if place.url == "memory:" else start_writer(place, seed)
        blocking = [Follower(store, seed * 100 + n) for n in range(8)]
        awaiting = [Follower(store, seed * 100 + 50 + n) for n in range(8)]
        followers = [*blocking, *awaiting]
        readers = [threading.Thread(target=follower.follow, daemon=True) for follower in blocking]
        readers.append(threading.Thread(target=follow_all, args=(place, store, awaiting), daemon=True))
        writers = [threading.Thread(target=write, args=(store, seed + n), daemon=True) for n in (10, 20)]
        for thread in [*readers, *writers]:
            thread.start()
        if process is not None:
            process.communicate("go\n", timeout=PATIENCE)
            assert process.returncode == 0
        for writer in writers:
            writer.join(PATIENCE)
        head = store.head()
        for follower in followers:
            follower.end = head
        for reader in readers:
            reader.join(PATIENCE)
            assert not reader.is_alive()
        for follower in followers:
            assert follower.seen == list(store.read(follower.query, after=follower.after)), follower.query
