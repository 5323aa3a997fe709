"""Things that happen at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from strandline import EventStore
from strandline.testing import interfering

PATIENCE_SECONDS = 30


def at_once(calls: Iterable[Callable[[], Any]]) -> list[Any]:
    """The outcomes of calls in threads that start together; an exception is an outcome."""
    listed = list(calls)
    start = threading.Barrier(len(listed))

    def run(call: Callable[[], Any]) -> Any:
        start.wait(PATIENCE_SECONDS)
        try:
            return call()
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(listed)) as pool:
        return list(pool.map(run, listed))


def overlapping(store: EventStore, calls: Iterable[Callable[[], Any]]) -> list[Any]:
    """The outcomes of commands in threads; all have decided before the first of them appends."""
    listed = list(calls)
    wait = partial(threading.Barrier(len(listed)).wait, PATIENCE_SECONDS)
    with interfering(store, *[wait] * len(listed)):
        return at_once(listed)


def conflicts(store: EventStore, call: Callable[[], Any], *rivals: Callable[[], Any]) -> int:
    """How many appends of a call are refused, if rivals act between the read and the append of an attempt."""
    before = store.stats().refused
    with interfering(store, *rivals) as interference:
        call()
    assert interference.used == len(rivals)
    return store.stats().refused - before


def kinds(outcomes: Iterable[Any]) -> dict[str, int]:
    """How many outcomes there are of each kind."""
    names = [type(outcome).__name__ for outcome in outcomes]
    return {name: names.count(name) for name in sorted(set(names))}
