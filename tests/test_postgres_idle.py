"""Who waits for a connection gets one in turn, and none is lost."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from strandline.engine.postgres.idle import IdleConnections


def waits(idle: IdleConnections, count: int) -> None:
    while len(idle._waiting) < count:
        time.sleep(0.001)


def started(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_those_who_wait_are_served_in_turn_and_before_those_who_come_later() -> None:
    idle = IdleConnections()
    served: list[tuple[int, Any]] = []
    threads = []
    for number in range(5):
        threads.append(started(lambda number=number: served.append((number, idle.get(10)))))
        waits(idle, number + 1)
    connections: list[Any] = [object() for _ in range(5)]
    for number, connection in enumerate(connections):
        idle.put(connection)
        assert idle.get_nowait() is None  # it is not here for somebody who did not wait
        threads[number].join()
    assert served == list(enumerate(connections))


def test_what_nobody_waits_for_is_kept() -> None:
    idle = IdleConnections()
    first: Any = object()
    second: Any = object()
    idle.put(first)
    idle.put(second)
    assert [idle.get(0), idle.get_nowait(), idle.get_nowait(), idle.get(0.001)] == [first, second, None, None]


def test_who_gave_up_waiting_is_handed_nothing() -> None:
    idle = IdleConnections()
    assert idle.get(0.01) is None
    connection: Any = object()
    idle.put(connection)
    assert idle.get_nowait() is connection


@pytest.mark.parametrize("is_handed_over", [False, True])
def test_an_interrupt_loses_no_connection(is_handed_over: bool) -> None:
    idle = IdleConnections()
    connection: Any = object()

    def interrupted(*_: object) -> None:
        if is_handed_over:
            idle.put(connection)  # just before the interrupt is noticed
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupted)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            idle.get(10)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    if not is_handed_over:
        idle.put(connection)
    assert idle.get_nowait() is connection


def test_many_threads_share_few_connections() -> None:
    idle = IdleConnections()
    used: list[Any] = [[] for _ in range(3)]
    for connection in used:
        idle.put(connection)

    def work() -> None:
        for _ in range(200):
            connection: Any = idle.get(10)
            connection.append("in")
            assert connection.count("in") - connection.count("out") == 1
            connection.append("out")
            idle.put(connection)

    for thread in [started(work) for _ in range(16)]:
        thread.join()
    assert sum(map(len, used)) == 2 * 16 * 200
