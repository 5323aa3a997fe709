"""What is measured: every case by its name, and which stores it is for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from . import raw
from .clients import Sample, Step, appends, bulk_appends, checks, queries, run_threads, run_times, scans
from .drive import Action, Crowd, drive
from .following import delays, deliver_all, keep_tables
from .homes import HomeName
from .lab import BATCH, History, Lab, Settings
from .machine import MIB, resident_bytes
from .pgbench import pgbench
from .processes import drive_processes, fresh_resident_bytes
from .spark import Read, by_jdbc, by_source, jdbc_jar, narrow_by_jdbc, narrow_by_source, read_all
from .stores import Client, Store
from .workload import HOT_TAG, RARE_TAG, Item, Query, Workload, subscription

PROCESSES = 2
DISK_CLIENTS = 64
# As many as the slower of a home writes in some seconds.
DISK_EVENTS: dict[HomeName, int] = {"embedded": 50_000, "postgres": 5_000}
RAW = "raw"
_BY_COMMAND: tuple[Action, ...] = ("execute", "cached")


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
    """Something to measure, on every store that it `fits`."""

    name: str
    group: str
    title: str
    unit: str
    run: Callable[[Lab, Store], Measured]
    fits: Callable[[Store], bool]
    is_rate: bool = True
    once: bool = False  # what does not vary from round to round


@dataclass(frozen=True)
class RawCase:
    """A limit of the machine, or of a server; it needs no store."""

    name: str
    title: str
    unit: str
    home: HomeName
    run: Callable[[Lab], Measured]
    group: str = RAW
    is_rate: bool = True
    once: bool = False


def raw_cases(settings: Settings) -> list[RawCase]:
    """The limits of the machine, and of a PostgreSQL server on it."""
    return [
        _step_case("raw:fdatasync", "4 KiB write + fdatasync", "flushes/s", raw.flushes),
        _step_case("raw:sqlite", "SQLite, one row per commit (FULL)", "commits/s", raw.commits),
        *[_pgbench_case(clients) for clients in settings.clients],
    ]


def _step_case(
    name: str, title: str, unit: str, limit: Callable[[Path], AbstractContextManager[Step]]
) -> RawCase:
    def run(lab: Lab) -> Measured:
        with lab.scratch("embedded") as directory, limit(Path(directory)) as step, lab.watched():
            return Measured.of(run_threads([step], lab.settings.seconds))

    return RawCase(name, title, unit, "embedded", run)


def _pgbench_case(clients: int) -> RawCase:
    def run(lab: Lab) -> Measured:
        with lab.scratch("postgres") as url, lab.watched():
            return Measured.of(pgbench(url, clients, lab.settings.seconds))

    title = f"pgbench, one prepared INSERT per commit, {_count(clients)}"
    return RawCase(f"raw:pgbench@{clients}", title, "commits/s", "postgres", run)


def store_cases(settings: Settings) -> list[Case]:
    """Every case that these settings ask for, in the order of the report."""
    few, many = min(settings.clients), max(settings.clients)
    half = max(1, many // PROCESSES)
    return [
        *[
            _crowd_case("append", clients, _in_any_way if clients == many else _in_threads_or_on_a_server)
            for clients in settings.clients
        ],
        *[
            _crowd_case("cycle", clients, _in_any_way if clients == many else _in_threads)
            for clients in sorted({few, many})
        ],
        *[
            _crowd_case(
                action, clients, _in_any_way_by_command if clients == many else _in_threads_by_command
            )
            for action in _BY_COMMAND
            for clients in sorted({few, many})
        ],
        Case("query", "query", "decision query", "queries/s", _query, _in_threads),
        Case("scan", "scan", "full scan", "events/s", _scan, _in_threads),
        Case("bulk", "bulk", f"bulk append, batches of {BATCH:,}", "events/s", _bulk, _in_threads),
        Case(
            "follow",
            "follow",
            "delivery to a follower that does nothing",
            "events/s",
            lambda lab, store: Measured.of(deliver_all(lab, store)),
            _in_threads_by_command,
        ),
        Case(
            "read-model",
            "follow",
            f"events into a read model of {settings.workload.courses:,} courses",
            "events/s",
            lambda lab, store: Measured.of(keep_tables(lab, store)),
            _in_threads_by_command,
        ),
        Case(
            "follow-delay",
            "follow",
            "from append acknowledged to handler called",
            "ms",
            _delay,
            _in_threads_by_command,
            is_rate=False,
        ),
        *_spark_cases(),
        Case("stale", "check", "stale check, hot tag, no type matches", "appends/s", _stale, _in_threads),
        Case("hot-rare", "check", "check on hot tag AND rare tag", "appends/s", _hot_and_rare, _in_threads),
        Case(
            f"processes:{PROCESSES}x{half}",
            "processes",
            f"conditional append, {PROCESSES} processes × {_count(half)}",
            "appends/s",
            lambda lab, store: _processes(lab, store, half),
            _in_any_way,
        ),
        Case(
            f"small:append@{many}",
            "small",
            f"append@{many} with only {settings.small_workload.events:,} events",
            "appends/s",
            lambda lab, store: _crowd(lab, store, "append", many, "small"),
            _in_any_way,
        ),
        _once("disk", "disk after conditional appends", "B/event", _disk, _in_threads),
        _once("memory", "memory of a fresh process", "MiB", _memory, _in_threads_embedded),
    ]


def _spark_cases() -> list[Case]:
    """Reads by our source, and by JDBC if there is a driver for it; if not, the names say so."""
    has_driver = jdbc_jar() is not None
    left_out = "" if has_driver else ", no JDBC driver here"
    cases: dict[str, tuple[str, Read]] = {
        f"spark:read{left_out}": ("whole events by Spark, our source", by_source),
        f"spark:narrow{left_out}": ("position and type by Spark, our source", narrow_by_source),
    }
    if has_driver:
        cases |= {
            "spark:read-jdbc": ("whole events by Spark, JDBC", by_jdbc),
            "spark:narrow-jdbc": ("position and type by Spark, JDBC", narrow_by_jdbc),
        }
    return [
        Case(name, "spark", title, "events/s", _spark_read(read), _in_threads_on_our_server)
        for name, (title, read) in cases.items()
    ]


def _spark_read(read: Read) -> Callable[[Lab, Store], Measured]:
    return lambda lab, store: Measured.of(read_all(lab, store, read))


def _in_threads_on_our_server(store: Store) -> bool:
    return _in_threads_by_command(store) and store.home == "postgres"


def _in_any_way(store: Store) -> bool:
    return True


def _in_any_way_by_command(store: Store) -> bool:
    return store.has_commands


def _in_threads_by_command(store: Store) -> bool:
    return store.has_commands and not store.is_async


def _in_threads(store: Store) -> bool:
    return not store.is_async


def _in_threads_or_on_a_server(store: Store) -> bool:
    return _in_threads(store) or store.home == "postgres"


def _in_threads_embedded(store: Store) -> bool:
    return _in_threads(store) and store.home == "embedded"


def _once(
    name: str,
    title: str,
    unit: str,
    run: Callable[[Lab, Store], Measured],
    fits: Callable[[Store], bool],
) -> Case:
    return Case(name, name, title, unit, run, fits, is_rate=False, once=True)


def _crowd_case(action: Action, clients: int, fits: Callable[[Store], bool]) -> Case:
    title = {
        "append": "conditional append",
        "cycle": "cycle (read + append)",
        "execute": "cycle through execute",
        "cached": "cycle through execute, decision cache, hot courses",
    }[action]
    return Case(
        f"{action}@{clients}",
        "execute" if action == "cached" else action,
        f"{title}, {_count(clients)}",
        "decisions/s",
        lambda lab, store: _crowd(lab, store, action, clients, "course"),
        fits,
    )


def _count(clients: int) -> str:
    return f"{clients} client{'s' * (clients > 1)}"


def _crowd(lab: Lab, store: Store, action: Action, clients: int, history: History) -> Measured:
    workload = lab.settings.small_workload if history == "small" else lab.settings.workload
    if action == "cached":
        workload = workload.hot()
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


def _delay(lab: Lab, store: Store) -> Measured:
    measured = Measured.of(delays(lab, store))
    return replace(measured, value=measured.p50_ms or 0.0)


def _stale(lab: Lab, store: Store) -> Measured:
    # The type is in the log, but never with this tag; so neither of the two alone rules it out.
    return _check(lab, store, (Item(("CourseDefined",), (HOT_TAG,)),))


def _hot_and_rare(lab: Lab, store: Store) -> Measured:
    return _check(lab, store, (Item((), (HOT_TAG, RARE_TAG)),))


def _check(lab: Lab, store: Store, query: Query) -> Measured:
    event = subscription(0, 0)
    return _alone(lab, store, "hot", lambda client: checks(client, query, event), writes=True)


def _disk(lab: Lab, store: Store) -> Measured:
    each = max(1, min(DISK_EVENTS[store.home], lab.settings.events) // DISK_CLIENTS)
    workload = lab.settings.workload
    with lab.scratch(store.home) as place:
        with store.serve(place) as running, store.connect(running.address) as client, lab.watched():
            decisions = [workload.decisions(number, DISK_CLIENTS) for number in range(DISK_CLIENTS)]
            run_times([appends(client, mine) for mine in decisions], each)
        sizes = lab.homes[store.home].disk_bytes(place)
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
