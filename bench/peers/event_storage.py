"""The npm package `event-storage`, driven by Node in its own process, with its default settings and with fsync.

It has no condition that is a query: an append names a stream and the version that this one is expected to have. So
its append is less than that of the others. It is installed into the run's own folder, and gone with it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from array import array
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from ..case import Absent, Measured, RawCase, count
from ..clients import Sample, warm_up
from ..durability import APPENDS, seen, watch
from ..lab import BATCH, Lab, Settings
from ..machine import MIB
from ..workload import DATA_BYTES

PACKAGE, VERSION = "event-storage", "0.8.0"
DRIVER = Path(__file__).with_name("event_storage.js")
INSTALL_SECONDS = 120
STORES = {
    "event-storage": (False, "its default: no flush, an acknowledged event may be lost with the machine"),
    "event-storage-fsync": (True, "syncOnFlush: fsync of the stream's file before every acknowledgement"),
}
DESCRIPTIONS = {name: {"version": VERSION, "durability": said} for name, (_, said) in STORES.items()}


def cases(settings: Settings) -> list[RawCase]:
    """What it can be asked for, in both settings."""
    return [case for store in STORES for case in _cases(store, settings)]


def _cases(store: str, settings: Settings) -> list[RawCase]:
    def case(name: str, title: str, unit: str, run: Callable[[Lab], Measured], **more: Any) -> RawCase:
        return RawCase(
            name,
            title,
            unit,
            "embedded",
            run,
            store=store,
            group=name.split("@", maxsplit=1)[0],
            in_quick=False,
            **more,
        )

    return [
        *[
            case(
                f"append@{clients}",
                f"conditional append, {count(clients)}",
                "decisions/s",
                partial(_rate, store, "append", clients),
                clients=clients,
            )
            for clients in settings.clients
        ],
        case("scan", "full scan", "events/s", partial(_rate, store, "scan", 1)),
        case("bulk", f"bulk append, batches of {BATCH:,}", "events/s", partial(_rate, store, "bulk", 1)),
        case("memory", "memory of a fresh process", "MiB", partial(_memory, store), is_rate=False, once=True),
        case("flushes", "flushes, one client", "/append", partial(_flushes, store), is_rate=False, once=True),
    ]


def _rate(store: str, action: str, clients: int, lab: Lab) -> Measured:
    answer = _run(lab, store, action=action, clients=clients, seconds=lab.settings.seconds)
    return Measured.of(
        Sample(answer["begin"], answer["end"], answer["units"], array("d", answer["latencies"]))
    )


def _memory(store: str, lab: Lab) -> Measured:
    answer = _run(lab, store, action="append", clients=1, times=1)
    return Measured(answer["resident"] / MIB, details={"process": "store and client"})


def _flushes(store: str, lab: Lab) -> Measured:
    log = lab.directory / "strace.log"
    _run(lab, store, lambda pid: watch(pid, log), action="append", clients=1, times=APPENDS)
    return seen(log)


def _run(
    lab: Lab,
    store: str,
    watched: Callable[[int], AbstractContextManager[None]] = lambda pid: nullcontext(),
    **order: Any,
) -> Any:
    """Fill a store, then have the order carried out in the process that filled it."""
    order |= {
        "sync": STORES[store][0],
        "events": lab.settings.events,
        "dataBytes": DATA_BYTES,
        "batch": BATCH,
        "warmUp": warm_up(lab.settings.seconds),
    }
    with lab.scratch("embedded") as place:
        command = [_program("node"), str(DRIVER), str(_installed(lab)), place, json.dumps(order)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as node:
            assert node.stdin is not None
            assert node.stdout is not None
            if node.stdout.readline() != "ready\n":
                raise RuntimeError(f"{PACKAGE} ended with {node.wait()}; see its error above")
            with watched(node.pid), lab.watched():
                node.stdin.write("go\n")
                node.stdin.flush()
                answer = node.stdout.readline()
        return json.loads(answer)


def _installed(lab: Lab) -> Path:
    """The package in the run's folder, fetched when first asked for."""
    folder, error = lab.directory / "npm", lab.directory / "npm-error"
    if not folder.exists():
        npm = _program("npm")
        folder.mkdir()
        error.write_text(_fetch(npm, folder))
    if reason := error.read_text():
        raise Absent(f"npm did not fetch {PACKAGE} {VERSION}: {reason}")
    return folder / "node_modules" / PACKAGE


def _fetch(npm: str, folder: Path) -> str:
    """Why it failed; empty if it did not."""
    what = ("--no-audit", "--no-fund", "--ignore-scripts", f"--prefix={folder}", f"{PACKAGE}@{VERSION}")
    try:
        ran = subprocess.run(
            [npm, "install", *what], capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"it took more than {INSTALL_SECONDS} s"
    if not ran.returncode:
        return ""
    errors = [line for line in ran.stderr.splitlines() if line.startswith("npm error ")]
    return errors[0].removeprefix("npm error ") if errors else "no reason given"


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise Absent(f"{name} is not installed")
    return found
