"""Things that happen at the same time: calls in threads, and actions between a command's read and its append."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from strandline import Command, EventStore

P = ParamSpec("P")
R = TypeVar("R")
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


def meanwhile(decision: Command[P, R], *actions: Callable[[], Any]) -> Command[P, R]:
    """The same command; in each of its first decisions, one of the actions happens after the read."""
    waiting, lock = list(actions), threading.Lock()

    @functools.wraps(decision)
    def decide(*args: Any, **kwargs: Any) -> Any:
        with lock:
            action = waiting.pop(0) if waiting else None
        if action is not None:
            action()
        return decision(*args, **kwargs)

    return Command(decide, commutative=decision.commutative, guard=decision.guard, options=decision.options)


def overlapping(decision: Command[P, R], times: int) -> Command[P, R]:
    """The same command; its first decisions wait for each other, so that all have read before one appends."""
    barrier = threading.Barrier(times)
    return meanwhile(decision, *[functools.partial(barrier.wait, PATIENCE_SECONDS)] * times)


def conflicts(store: EventStore, call: Callable[[], Any]) -> int:
    """How many appends were refused while this was done."""
    before = store.stats().refused
    call()
    return store.stats().refused - before


def kinds(outcomes: Iterable[Any]) -> dict[str, int]:
    """How many outcomes there are of each kind."""
    names = [type(outcome).__name__ for outcome in outcomes]
    return {name: names.count(name) for name in sorted(set(names))}
