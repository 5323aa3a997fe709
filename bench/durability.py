"""How often a store flushes to the disk while it acknowledges appends: what strace sees, not what is said."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .case import Absent, Measured
from .homes import Databases
from .lab import Lab
from .processes import appends_order
from .stores import Store
from .workload import Workload

APPENDS = 50
FLUSHES = ("fsync", "fdatasync", "msync", "sync_file_range", "syncfs")
RING = "io_uring_enter"  # may hand over a flush, or anything else: it is told, but not counted


def flushes(lab: Lab, store: Store) -> Measured:
    """Appends of one client, one after another, each acknowledged before the next."""
    log = lab.directory / "strace.log"
    with lab.running(store, writes=True) as running:
        home = lab.homes[store.home]
        server = home.pid if isinstance(home, Databases) else running.pid
        order = appends_order(store, running.address, Workload(lab.settings.events), APPENDS)
        lab.workers.ask_fresh(order, lambda client: watch(server or client, log))
    return seen(log)


def seen(log: Path) -> Measured:
    """Flushes per append, and which ones."""
    lines = log.read_text().splitlines()
    calls = Counter(name for line in lines for name in (*FLUSHES, RING) if f" {name}(" in line)
    flushes = calls.total() - calls[RING]
    return Measured(flushes / APPENDS, details={"appends": APPENDS, "calls": dict(+calls)})


@contextmanager
def watch(pid: int, log: Path) -> Iterator[None]:
    """Write every flush of the process, and of those it starts from now on, to a file."""
    program = shutil.which("strace")
    if program is None:
        raise Absent("strace is not installed")
    command = [program, "-f", "-e", f"trace={','.join((*FLUSHES, RING))}", "-o", str(log), "-p", str(pid)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as strace:
        assert strace.stderr is not None
        try:
            said = strace.stderr.readline()
            if "attached" not in said:
                raise Absent(f"strace may not look: {said.strip()}")
            yield
        finally:
            strace.send_signal(signal.SIGINT)
