"""Other processes: clients that share a store with those of this one, and a look at fresh memory.

`python -m bench.processes` is the other process. For every order, a line of JSON, it says that it is ready, waits
for another line, works, and answers with JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from array import array
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

from .clients import Sample, join
from .drive import Action, Crowd, drive
from .machine import resident_bytes
from .stores import Store, all_stores
from .workload import Workload

PROJECT = Path(__file__).parent.parent
Order = dict[str, Any]
Work = Callable[[], dict[str, Any]]
Watched = Callable[[int], AbstractContextManager[None]]


class Workers:
    """Processes that are started when first needed, and used again."""

    def __init__(self, *, always_fresh: bool = True) -> None:
        self._always_fresh = always_fresh
        self._processes: list[subprocess.Popen[str]] = []

    def ask(self, orders: Sequence[Order]) -> list[Any]:
        """Have each order carried out by another process, all at once."""
        workers = self._started(len(orders))
        for process, order in zip(workers, orders, strict=True):
            _say(process, json.dumps(order))
        for process in workers:
            _hear(process)
        for process in workers:
            _say(process, "go")
        answers = [json.loads(_hear(process)) for process in workers]
        return [_answer(one) for one in answers]

    def ask_fresh(self, order: Order, watched: Watched = lambda pid: nullcontext()) -> Any:
        """Have an order carried out by a process that has done nothing before, watched by its pid meanwhile."""
        if self._always_fresh:
            self.close()
        (process,) = self._started(1)
        _say(process, json.dumps(order))
        _hear(process)
        with watched(process.pid):
            _say(process, "go")
            return _answer(json.loads(_hear(process)))

    def close(self) -> None:
        """End them."""
        for process in self._processes:
            process.communicate()
        self._processes.clear()

    def _started(self, number: int) -> list[subprocess.Popen[str]]:
        command, pipe = [sys.executable, "-m", "bench.processes"], subprocess.PIPE
        while len(self._processes) < number:
            self._processes.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=PROJECT))
        return self._processes[:number]


def drive_processes(
    workers: Workers,
    store: Store,
    address: str,
    action: Action,
    workload: Workload,
    processes: int,
    clients: int,
    seconds: float,
) -> Sample:
    """`drive` in several processes at once, each with so many clients."""
    crowds = [Crowd(process * clients, clients, processes * clients) for process in range(processes)]
    orders = [drive_order(store, address, action, workload, crowd, seconds) for crowd in crowds]
    answers = workers.ask(orders)
    return join([Sample(a["begin"], a["end"], a["units"], array("d", a["latencies"])) for a in answers])


def drive_order(
    store: Store, address: str, action: Action, workload: Workload, crowd: Crowd, seconds: float
) -> Order:
    """What another process needs to know to `drive`."""
    return {
        "do": "drive",
        "store": store.name,
        "address": address,
        "action": action,
        "events": workload.events,
        "crowd": crowd,
        "seconds": seconds,
    }


def connect_order(store: Store, address: str) -> Order:
    """Connect and look at the head."""
    return {"do": "connect", "store": store.name, "address": address}


def appends_order(store: Store, address: str, workload: Workload, times: int) -> Order:
    """Append so many times, one after another."""
    events = workload.events
    return {"do": "append", "store": store.name, "address": address, "events": events, "times": times}


def _say(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


def _hear(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"the other process ended with {process.wait()}; see its error above")
    return line


def _answer(told: dict[str, Any]) -> dict[str, Any]:
    if "failed" in told:
        raise RuntimeError(told["failed"])
    return told


def main() -> None:
    """Be the other process."""
    for line in sys.stdin:
        order = json.loads(line)
        store = all_stores()[order["store"]]
        work = {"drive": _drive, "connect": _connect, "append": _append}[order["do"]](store, order)
        print("ready", flush=True)
        if not sys.stdin.readline():
            return
        before = resident_bytes("self")
        print(json.dumps({"before": before, **_done(work)}), flush=True)


def _done(work: Work) -> dict[str, Any]:
    try:
        return work()
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}"}


def _drive(store: Store, order: Order) -> Work:
    crowd, workload = Crowd(*order["crowd"]), Workload(order["events"])
    for index in range(crowd.here):  # made now, they are there when it begins
        workload.decisions(crowd.first + index, crowd.everywhere)

    def work() -> dict[str, Any]:
        sample = drive(store, order["address"], order["action"], workload, crowd, order["seconds"])
        return {
            "begin": sample.begin,
            "end": sample.end,
            "units": sample.units,
            "after": resident_bytes("self"),
            "latencies": list(sample.latencies),
        }

    return work


def _connect(store: Store, order: Order) -> Work:
    def work() -> dict[str, Any]:
        with store.connect(order["address"]) as client:
            client.head()
            return {"after": resident_bytes("self")}

    return work


def _append(store: Store, order: Order) -> Work:
    decisions = Workload(order["events"]).decisions(0, 1)

    def work() -> dict[str, Any]:
        with store.connect(order["address"]) as client:
            after = client.head()
            for decision in islice(decisions, order["times"]):
                after = client.append(decision.event, decision.query, after)
        return {}

    return work


if __name__ == "__main__":
    main()
