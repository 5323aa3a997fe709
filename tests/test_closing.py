"""Readers that a closing store meets on its way out."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import strandline
from strandline import Event, EventStore, Query, StoreClosed
from strandline.engine import Span


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


@pytest.fixture
def store(path: Path) -> Iterator[EventStore]:
    with strandline.connect(path) as store:
        store.append(Event("A", {}, tags=["x"]))
        yield store


READS: list[Callable[[EventStore], object]] = [
    lambda store: list(store.read(Query.tag("x"))),
    lambda store: list(store.read(Query.tag("x"), limit=1_000_000)),
    lambda store: store.head(),
    lambda store: store.exists(Query.tag("x")),
    lambda store: store.count(Query.tag("x")),
    lambda store: list(store.appends()),
    lambda store: store.stats(),
    lambda store: next(store.subscribe()),
]


@pytest.mark.parametrize(
    "call",
    [
        lambda engine: engine.head(),
        lambda engine: engine.exists(Query.tag("x"), 0),
        lambda engine: engine.count(Query.tag("x"), 0),
        lambda engine: engine.position_at(0),
        lambda engine: engine.read_page(Query.tag("x"), Span(), 10),
        lambda engine: engine.read_page(Query.tag("x"), Span(), 10_000),
        lambda engine: engine.appends_page(0, 10),
        lambda engine: engine.stats(),
    ],
)
def test_an_engine_that_was_closed_says_so_to_readers_that_come_too_late(
    store: EventStore, call: Callable[[Any], object]
) -> None:
    store.close()
    with pytest.raises(StoreClosed):
        call(store.engine)


@pytest.fixture
def restless_threads() -> Iterator[None]:
    """Threads take turns so often that they meet each other everywhere."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def keep_reading(
    store: EventStore,
    read: Callable[[EventStore], object],
    begun: threading.Barrier,
    outcomes: list[object],
) -> None:
    begun.wait()
    try:
        while True:
            read(store)
    except Exception as error:
        outcomes.append(error)


@pytest.mark.usefixtures("restless_threads")
@pytest.mark.parametrize("read", READS)
def test_a_reader_of_a_store_that_another_thread_closes_meets_store_closed(
    path: Path, read: Callable[[EventStore], object]
) -> None:
    for attempt in range(8):
        store = strandline.connect(path)
        store.append([Event("A", {}, tags=["x"]) for _ in range(20)])
        outcomes: list[object] = []
        begun = threading.Barrier(4)

        threads = [
            threading.Thread(target=keep_reading, args=(store, read, begun, outcomes)) for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        begun.wait()
        store.close()
        for thread in threads:
            thread.join(20)
        ended = [StopIteration, StoreClosed]  # a subscription ends, everything else says why not
        assert all(type(error) in ended for error in outcomes), (attempt, outcomes)
        assert len(outcomes) == 3
