"""The limits of the machine and of a PostgreSQL server on it: what no store can beat that keeps its word."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from . import raw
from .case import Measured, RawCase, count
from .clients import Step, run_tasks, run_threads
from .lab import Lab, Settings
from .pgbench import pgbench


def cases(settings: Settings) -> Iterator[RawCase]:
    """One flush, one commit of SQLite, flushes that many clients share, one commit of PostgreSQL."""
    flush, commit = "4 KiB write + fdatasync", "SQLite, one row per commit (FULL)"
    yield RawCase("raw:fdatasync", flush, "flushes/s", "embedded", partial(_alone, raw.flushes))
    yield RawCase("raw:sqlite", commit, "commits/s", "embedded", partial(_alone, raw.commits))
    many = max(settings.clients)
    for way, run_shared in (("threads", _threads), ("tasks", _tasks)):
        title = f"Python, {many} {way}: a flush that all share who wait, and nothing else"
        run = partial(run_shared, many)
        yield RawCase(f"raw:shared-{way}@{many}", title, "waits/s", "embedded", run, clients=many)
    for clients in settings.clients:
        title, run = f"pgbench, one prepared INSERT per commit, {count(clients)}", partial(_pgbench, clients)
        yield RawCase(f"raw:pgbench@{clients}", title, "commits/s", "postgres", run, clients=clients)


def _alone(limit: Callable[[Path], AbstractContextManager[Step]], lab: Lab) -> Measured:
    with lab.scratch("embedded") as directory, limit(Path(directory)) as step, lab.watched():
        return Measured.of(run_threads([step], lab.settings.seconds))


def _threads(clients: int, lab: Lab) -> Measured:
    with lab.scratch("embedded") as directory, raw.shared_flushes(Path(directory)) as step, lab.watched():
        return Measured.of(run_threads([step] * clients, lab.settings.seconds))


def _tasks(clients: int, lab: Lab) -> Measured:
    with lab.scratch("embedded") as directory, raw.awaited_flushes(Path(directory)) as step, lab.watched():
        return Measured.of(asyncio.run(run_tasks([step] * clients, lab.settings.seconds)))


def _pgbench(clients: int, lab: Lab) -> Measured:
    with lab.scratch("postgres") as url, lab.watched():
        return Measured.of(pgbench(url, clients, lab.settings.seconds))
