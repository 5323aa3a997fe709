"""Subscriptions: how long it takes from the call of an append until a subscriber has the event."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from queue import SimpleQueue
from time import perf_counter

from .case import Case, Measured, in_no_way, in_threads
from .clients import Sample
from .lab import Lab
from .stores import Client, Store
from .workload import Item, subscription

PAUSE_SECONDS = 0.005
PATIENCE_SECONDS = 60
COURSE = 7


def cases() -> Iterator[Case]:
    """A subscriber that shares the writer's connection, and one that does not."""
    for name, connections in (("subscribe", "one connection"), ("subscribe-elsewhere", "two connections")):
        title = f"from append called to subscriber told, {connections}"
        run = partial(_delay, elsewhere=name != "subscribe")
        yield Case(name, "follow", title, "ms", run, in_threads, in_no_way, is_rate=False)


def _delay(lab: Lab, store: Store, *, elsewhere: bool) -> Measured:
    """One writer and one subscriber, who has a connection of its own if it is `elsewhere`; nothing else happens."""
    query = (Item(("StudentSubscribed",), (f"course:{COURSE}",)),)
    seen: SimpleQueue[float] = SimpleQueue()
    with (
        lab.running(store, writes=True) as running,
        store.connect(running.address) as writer,
        store.connect(running.address) if elsewhere else nullcontext(writer) as reader,
    ):
        with reader.subscribe(query, reader.head()) as events:
            subscriber = threading.Thread(target=_note_times, args=(events, seen))
            subscriber.start()
            measured = Measured.of(_write_and_wait(writer, seen, lab.settings.seconds))
        subscriber.join()
    return replace(measured, value=measured.p50_ms or 0.0)


def _note_times(events: Iterator[object], seen: SimpleQueue[float]) -> None:
    for _ in events:
        seen.put(perf_counter())


def _write_and_wait(client: Client, seen: SimpleQueue[float], seconds: float) -> Sample:
    event, sample = subscription(COURSE, COURSE), Sample(0.0)
    while not sample.begin or sample.end < sample.begin + seconds:
        threading.Event().wait(PAUSE_SECONDS)  # until the subscriber waits again
        called = perf_counter()
        client.append_batch([event])
        delivered = seen.get(timeout=PATIENCE_SECONDS)
        if not sample.begin:  # the first one may have had to connect
            sample.begin = sample.end = delivered
            continue
        sample.end = delivered
        sample.units += 1
        sample.latencies.append(delivered - called)
    return sample
