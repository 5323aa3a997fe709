"""Other processes: clients that share a store with those of this one, and a look at fresh memory.

`python -m bench.processes` is the other process: it reads one line of JSON, says that it is ready,
waits for a second line, works, and answers with JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .clients import Sample, join
from .drive import Action, Crowd, drive
from .machine import resident_bytes
from .stores import Store, all_stores
from .workload import Workload

PROJECT = Path(__file__).parent.parent


def drive_processes(
    store: Store,
    address: str,
    action: Action,
    workload: Workload,
    processes: int,
    clients: int,
    seconds: float,
) -> Sample:
    """`drive` in several processes at once, each with so many clients."""
    orders = [
        {
            "do": "drive",
            "store": store.name,
            "address": address,
            "action": action,
            "events": workload.events,
            "crowd": [process * clients, clients, processes * clients],
            "seconds": seconds,
        }
        for process in range(processes)
    ]
    answers = _ask(orders)
    return join([Sample(a["begin"], a["end"], a["units"], array("d", a["latencies"])) for a in answers])


def fresh_resident_bytes(store: Store, address: str) -> tuple[int, int]:
    """Resident memory of a new process before it connects, and once it asked for the head."""
    (answer,) = _ask([{"do": "memory", "store": store.name, "address": address}])
    return answer["before"], answer["after"]


def _ask(orders: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "bench.processes"]
    started = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=PROJECT)
        for _ in orders
    ]
    try:
        for process, order in zip(started, orders, strict=True):
            _say(process, json.dumps(order))
        for process in started:
            _hear(process)
        for process in started:
            _say(process, "go")
        return [json.loads(_hear(process)) for process in started]
    finally:
        for process in started:
            process.communicate()


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


def main() -> None:
    """Be the other process."""
    order = json.loads(sys.stdin.readline())
    store = all_stores()[order["store"]]
    print("ready", flush=True)
    sys.stdin.readline()
    if order["do"] == "memory":
        answer: dict[str, Any] = {"before": resident_bytes("self")}
        with store.connect(order["address"]) as client:
            client.head()
            answer["after"] = resident_bytes("self")
    else:
        crowd, workload = Crowd(*order["crowd"]), Workload(order["events"])
        sample = drive(store, order["address"], order["action"], workload, crowd, order["seconds"])
        answer = {
            "begin": sample.begin,
            "end": sample.end,
            "units": sample.units,
            "latencies": list(sample.latencies),
        }
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
