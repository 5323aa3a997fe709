"""Followers: how fast they deliver what is there, and how soon what is new."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from queue import SimpleQueue
from time import perf_counter
from typing import Any

import strandline
from strandline import Event, EventStore, Query, SequencedEvent
from strandline.follow import ReadModel

from .case import Case, Measured, by_command_in_threads
from .clients import Sample, Step, run_threads
from .commands import Course
from .lab import Lab, Settings
from .stores import Store
from .workload import Workload

PAUSE_SECONDS = 0.005
NEW = "New"
QUICK_EVENTS = 10_000


def cases(settings: Settings) -> Iterator[Case]:
    """How fast, and how soon."""
    courses = Workload(_events(settings)).courses
    delivery, table = (
        "delivery to a follower that does nothing",
        f"events into a read model of {courses:,} courses",
    )
    yield Case("follow", "follow", delivery, "events/s", _deliver_all, by_command_in_threads)
    yield Case("read-model", "follow", table, "events/s", _keep_tables, by_command_in_threads)
    soon = "from append acknowledged to handler called"
    yield Case("follow-delay", "follow", soon, "ms", _delay, by_command_in_threads, is_rate=False)


def _deliver_all(lab: Lab, store: Store) -> Measured:
    """New followers of the whole log, one after another, whose handler does nothing."""
    with _opened(lab, store) as log:
        return Measured.of(run_threads([_catch_up(log)], lab.settings.seconds))


def _keep_tables(lab: Lab, store: Store) -> Measured:
    """New read models of all courses, one after another."""
    with _opened(lab, store) as log:
        return Measured.of(run_threads([_fill(log)], lab.settings.seconds))


def _delay(lab: Lab, store: Store) -> Measured:
    """How long it takes from an acknowledged append until the handler is called, while nothing else happens."""
    with _opened(lab, store) as log:
        follower = log.follower("new", Query.types(NEW), after=log.head())
        called: SimpleQueue[float] = SimpleQueue()

        def handle(events: Sequence[SequencedEvent], tx: Any) -> None:
            called.put(perf_counter())

        runner = threading.Thread(target=follower.run, args=(handle,))
        runner.start()
        try:
            measured = Measured.of(_delays(log, called, lab.settings.seconds))
            return replace(measured, value=measured.p50_ms or 0.0)
        finally:
            follower.stop()
            runner.join()


@contextmanager
def _opened(lab: Lab, store: Store) -> Iterator[EventStore]:
    with (
        lab.running(store, events=_events(lab.settings), writes=True) as running,
        strandline.connect(running.address) as log,
    ):
        yield log


def _events(settings: Settings) -> int:
    """A part of the log tells the quick run how fast it goes; whole, it would take most of its time."""
    return settings.events if settings.is_full else min(QUICK_EVENTS, settings.events)


def _catch_up(log: EventStore) -> Step:
    numbers = iter(range(1 << 30))
    head = log.head()

    def step() -> int:
        log.follower(f"bench {next(numbers)}").catch_up(lambda events, tx: None)
        return head

    return step


def _fill(log: EventStore) -> Step:
    numbers = iter(range(1 << 30))
    head = log.head()

    def step() -> int:
        ReadModel(Course, table=f"bench_{next(numbers)}").catch_up(log)
        return head

    return step


def _delays(log: EventStore, called: SimpleQueue[float], seconds: float) -> Sample:
    log.append(Event(NEW, {}))
    called.get(timeout=60)
    sample = Sample(perf_counter())
    while sample.end < sample.begin + seconds:
        threading.Event().wait(PAUSE_SECONDS)  # until it waits again
        log.append(Event(NEW, {}))
        acknowledged = perf_counter()
        sample.end = called.get(timeout=60)
        sample.latencies.append(max(0.0, sample.end - acknowledged))
        sample.units += 1
    return sample
