"""What a store takes: space on the disk, memory, flushes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial

from . import durability
from .case import Case, Fits, Measured, Size, count, in_any_way, in_no_way, in_threads, in_threads_embedded
from .clients import run_each
from .drive import Crowd
from .homes import HomeName
from .lab import Lab, Settings
from .machine import MIB, resident_bytes
from .processes import connect_order, drive_order
from .steps import Waitless, appends, in_thread
from .stores import Store
from .workload import Workload

DISK_CLIENTS = 64
# As many as the slower of a home writes in some seconds; the quick run writes a part.
DISK_EVENTS: dict[HomeName, int] = {"embedded": 50_000, "postgres": 5_000}
QUICK_DISK_EVENTS: dict[HomeName, int] = {"embedded": 10_000, "postgres": 2_000}


def cases(settings: Settings, size: Size) -> Iterator[Case]:
    """Each is measured once: it does not vary."""
    many = max(settings.clients)
    yield _once("disk", "disk after conditional appends", "B/event", _disk, in_threads)
    yield memory(size)
    busy = partial(_busy_memory, clients=many)
    grown = f"growth of memory by appends of {count(many)}"
    yield _once("memory-busy", grown, "MiB", busy, in_threads_embedded, in_no_way)
    flushes, seen = durability.flushes, "flushes per append of one client"
    yield _once("flushes", seen, "flushes", flushes, in_threads, in_no_way)


def memory(size: Size) -> Case:
    """What it takes to have a log open."""
    title, run = f"memory of a fresh process{size.title}", partial(_memory, events=size.events)
    fits, in_quick = size.fits(in_threads_embedded), size.in_quick()
    return _once(f"memory{size.name}", title, "MiB", run, fits, in_quick, size.events)


def _once(
    name: str,
    title: str,
    unit: str,
    run: Callable[[Lab, Store], Measured],
    fits: Fits,
    in_quick: Fits = in_any_way,
    events: int = 0,
) -> Case:
    group = re.split("[-:]", name)[0]
    return Case(name, group, title, unit, run, fits, in_quick, is_rate=False, once=True, events=events)


def _disk(lab: Lab, store: Store) -> Measured:
    """Conditional appends into an empty store."""
    most = (DISK_EVENTS if lab.settings.is_full else QUICK_DISK_EVENTS)[store.home]
    each = max(1, min(most, lab.settings.events) // DISK_CLIENTS)
    workload = Workload(lab.settings.events)
    with lab.scratch(store.home) as place:
        with store.serve(place) as running, store.connect(running.address) as client, lab.watched():
            decisions = [workload.decisions(number, DISK_CLIENTS) for number in range(DISK_CLIENTS)]
            run_each([in_thread(appends(Waitless(client), mine)) for mine in decisions], each)
        sizes = lab.homes[store.home].disk_bytes(place)
    events = each * DISK_CLIENTS
    return Measured(sizes["bytes"] / events, details={"events": events, **sizes})


def _memory(lab: Lab, store: Store, events: int) -> Measured:
    """Resident memory of whatever the store runs in, once somebody has connected."""
    with lab.running(store, events=events, writes=False) as running:
        if running.pid is None:
            answer = lab.workers.ask_fresh(connect_order(store, running.address))
            details = {"process": "client", "before_connecting_mib": answer["before"] / MIB}
            return Measured(answer["after"] / MIB, details=details)
        with store.connect(running.address) as client:
            client.head()
            return Measured(resident_bytes(running.pid) / MIB, details={"process": "server"})


def _busy_memory(lab: Lab, store: Store, clients: int) -> Measured:
    """What the process that the store runs in has more after it worked than before."""
    workload, crowd = Workload(lab.settings.events), Crowd(0, clients, clients)
    with lab.running(store, writes=True) as running:
        before = resident_bytes(running.pid) if running.pid else None
        order = drive_order(store, running.address, "append", workload, crowd, lab.settings.seconds)
        answer = lab.workers.ask_fresh(order)
        after = resident_bytes(running.pid) if running.pid else answer["after"]
        grown = max(0, after - (answer["before"] if before is None else before))
        return Measured(grown / MIB, details={"appends": answer["units"], "resident_mib": after / MIB})
