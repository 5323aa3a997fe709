"""What is measured: every case by its name, and which stores it is for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from . import raw
from .clients import Sample, Step, appends, bulk_appends, checks, queries, run_threads, run_times, scans
from .drive import Action, Crowd, drive
from .lab import BATCH, History, Lab, Settings
from .machine import MIB, ForeignLoad, disk_bytes, resident_bytes
from .processes import drive_processes, fresh_resident_bytes
from .stores import Client, Store
from .workload import HOT_TAG, RARE_TAG, Item, Query, Workload, subscription

PROCESSES = 2
DISK_EVENTS = 50_000
DISK_CLIENTS = 64
RAW = "raw"


@dataclass(frozen=True)
class Measured:
    """One number, and the latencies behind it in milliseconds if it is a rate."""

    value: float
    p50_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None
    operations: int = 0
    details: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, sample: Sample) -> Measured:
        """The rate and latencies of a sample."""
        return cls(
            sample.rate,
            sample.percentile(50) * 1e3,
            sample.percentile(99) * 1e3,
            max(sample.latencies) * 1e3,
            len(sample.latencies),
        )


@dataclass(frozen=True)
class Case:
    """Something to measure. `kinds` are the ways to call a store that it is measured in."""

    name: str
    group: str
    title: str
    unit: str
    run: Callable[[Lab, Store], Measured]
    kinds: tuple[Literal["threads", "asyncio"], ...] = ("threads",)
    is_rate: bool = True
    once: bool = False  # what does not vary from round to round


@dataclass(frozen=True)
class RawCase:
    """A limit of the machine; it needs no store."""

    name: str
    title: str
    unit: str
    limit: Callable[[Path], AbstractContextManager[Step]]
    group: str = RAW
    is_rate: bool = True
    once: bool = False

    def run(self, lab: Lab) -> Measured:
        """Repeat the limiting step in one thread."""
        with lab.scratch() as scratch, self.limit(scratch) as step:
            watch = ForeignLoad(None)
            sample = run_threads([step], lab.settings.seconds)
            lab.foreign_cores = watch.cores()
        return Measured.of(sample)


def raw_cases() -> list[RawCase]:
    """The limits of the machine."""
    return [
        RawCase("raw:fdatasync", "4 KiB write + fdatasync", "flushes/s", raw.flushes),
        RawCase("raw:sqlite", "SQLite, one row per commit (FULL)", "commits/s", raw.commits),
    ]


def store_cases(settings: Settings) -> list[Case]:
    """Every case that these settings ask for, in the order of the report."""
    few, many = min(settings.clients), max(settings.clients)
    half = max(1, many // PROCESSES)
    return [
        *[_crowd_case("append", clients, is_most=clients == many) for clients in settings.clients],
        *[_crowd_case("cycle", clients, is_most=clients == many) for clients in sorted({few, many})],
        Case("query", "query", "decision query", "queries/s", _query),
        Case("scan", "scan", "full scan", "events/s", _scan),
        Case("bulk", "bulk", f"bulk append, batches of {BATCH:,}", "events/s", _bulk),
        Case("stale", "check", "stale check, hot tag, no type matches", "appends/s", _stale),
        Case("hot-rare", "check", "check on hot tag AND rare tag", "appends/s", _hot_and_rare),
        Case(
            f"processes:{PROCESSES}x{half}",
            "processes",
            f"conditional append, {PROCESSES} processes × {half} clients",
            "appends/s",
            lambda lab, store: _processes(lab, store, half),
            ("threads", "asyncio"),
        ),
        Case(
            f"small:append@{many}",
            "small",
            f"append@{many} with only {settings.small_workload.events:,} events",
            "appends/s",
            lambda lab, store: _crowd(lab, store, "append", many, "small"),
            ("threads", "asyncio"),
        ),
        Case("disk", "disk", "disk after conditional appends", "B/event", _disk, is_rate=False, once=True),
        Case("memory", "memory", "memory of a fresh process", "MiB", _memory, is_rate=False, once=True),
    ]


def _crowd_case(action: Action, clients: int, *, is_most: bool) -> Case:
    title = {"append": "conditional append", "cycle": "cycle (read + append)"}[action]
    return Case(
        f"{action}@{clients}",
        action,
        f"{title}, {clients} client{'s' * (clients > 1)}",
        f"{action}s/s",
        lambda lab, store: _crowd(lab, store, action, clients, "course"),
        ("threads", "asyncio") if is_most else ("threads",),
    )


def _crowd(lab: Lab, store: Store, action: Action, clients: int, history: History) -> Measured:
    workload = lab.settings.small_workload if history == "small" else lab.settings.workload
    with lab.running(store, history, writes=True) as running:
        crowd = Crowd(0, clients, clients)
        return Measured.of(drive(store, running.address, action, workload, crowd, lab.settings.seconds))


def _processes(lab: Lab, store: Store, clients: int) -> Measured:
    settings = lab.settings
    with lab.running(store, "course", writes=True) as running:
        return Measured.of(
            drive_processes(
                store, running.address, "append", settings.workload, PROCESSES, clients, settings.seconds
            )
        )


def _alone(
    lab: Lab, store: Store, history: History, make: Callable[[Client], Step], *, writes: bool
) -> Measured:
    with lab.running(store, history, writes=writes) as running, store.connect(running.address) as client:
        return Measured.of(run_threads([make(client)], lab.settings.seconds))


def _query(lab: Lab, store: Store) -> Measured:
    decisions = lab.settings.workload.decisions(0, 1)
    return _alone(lab, store, "course", lambda client: queries(client, decisions), writes=False)


def _scan(lab: Lab, store: Store) -> Measured:
    return _alone(lab, store, "course", scans, writes=False)


def _bulk(lab: Lab, store: Store) -> Measured:
    batch = list(islice(Workload(BATCH).history(), BATCH))
    return _alone(lab, store, "course", lambda client: bulk_appends(client, batch), writes=True)


def _stale(lab: Lab, store: Store) -> Measured:
    # The type is in the log, but never with this tag; so neither of the two alone rules it out.
    return _check(lab, store, (Item(("CourseDefined",), (HOT_TAG,)),))


def _hot_and_rare(lab: Lab, store: Store) -> Measured:
    return _check(lab, store, (Item((), (HOT_TAG, RARE_TAG)),))


def _check(lab: Lab, store: Store, query: Query) -> Measured:
    event = subscription(0, 0)
    return _alone(lab, store, "hot", lambda client: checks(client, query, event), writes=True)


def _disk(lab: Lab, store: Store) -> Measured:
    each = max(1, min(DISK_EVENTS, lab.settings.events) // DISK_CLIENTS)
    workload = lab.settings.workload
    with lab.scratch() as scratch:
        with store.serve(scratch) as running, store.connect(running.address) as client:
            watch = ForeignLoad(running.pid)
            decisions = [workload.decisions(number, DISK_CLIENTS) for number in range(DISK_CLIENTS)]
            run_times([appends(client, mine) for mine in decisions], each)
            lab.foreign_cores = watch.cores()
        sizes = disk_bytes(scratch)
    events = each * DISK_CLIENTS
    return Measured(sizes["bytes"] / events, details={"events": events, **sizes})


def _memory(lab: Lab, store: Store) -> Measured:
    details: dict[str, Any] = {"events": lab.settings.events}
    with lab.running(store, "course", writes=False) as running:
        if running.pid is None:
            before, size = fresh_resident_bytes(store, running.address)
            details |= {"process": "client", "before_connecting_mib": before / MIB}
        else:
            with store.connect(running.address) as client:
                client.head()
                size = resident_bytes(running.pid)
            details |= {"process": "server"}
    return Measured(size / MIB, details=details)
