"""Decisions: many clients at once who append, or read and append, each with its own courses and students."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from .case import (
    Case,
    Fits,
    Measured,
    Size,
    by_command,
    count,
    in_any_way,
    in_no_way,
    in_threads,
    in_threads_or_on_a_server,
)
from .drive import Action, Crowd, drive
from .lab import Lab, Settings
from .processes import drive_processes
from .stores import Store
from .workload import Workload

PROCESSES = 2
TITLES: dict[Action, str] = {
    "append": "conditional append",
    "cycle": "cycle (read + append)",
    "execute": "cycle through execute",
    "cached": "cycle through execute, decision cache, hot courses",
    "contended10": "cycle, 10 % are refused at first",
    "contended50": "cycle, 50 % are refused at first",
}


def cases(settings: Settings, size: Size) -> Iterator[Case]:
    """Each action by each number of clients; what is about hot courses is the same in a log of any size."""
    actions: tuple[Action, ...] = ("append", "cycle", "execute", "cached")
    for action in actions if size.is_usual else actions[:3]:
        for clients in settings.clients:
            yield _crowd(action, clients, size, _in_quick(settings, action, clients, size))


def contention(settings: Settings, size: Size) -> Iterator[Case]:
    """Cycles that get in each other's way; without that, they are the cycles above."""
    for action in ("contended10", "contended50"):
        yield _crowd(action, max(settings.clients), size, in_no_way)


def processes(settings: Settings) -> Iterator[Case]:
    """As many clients as there are at most, shared out among processes."""
    each = max(1, max(settings.clients) // PROCESSES)
    actions: tuple[tuple[Action, str, Fits], ...] = (
        ("append", "processes", in_any_way),
        ("cycle", "cycle-processes", in_no_way),
    )
    for action, name, in_quick in actions:
        yield Case(
            f"{name}:{PROCESSES}x{each}",
            "processes",
            f"{TITLES[action]}, {PROCESSES} processes × {count(each)}",
            "decisions/s",
            partial(_several, action=action, clients=each),
            in_any_way,
            in_quick,
            clients=PROCESSES * each,
        )


def _crowd(action: Action, clients: int, size: Size, in_quick: Fits) -> Case:
    return Case(
        f"{action}@{clients}{size.name}",
        {"cached": "execute", "contended10": "contention", "contended50": "contention"}.get(action, action),
        f"{TITLES[action]}, {count(clients)}{size.title}",
        "decisions/s",
        partial(_measure, action=action, clients=clients, events=size.events),
        size.fits(by_command if action in {"execute", "cached"} else in_any_way),
        in_quick,
        events=size.events,
        clients=clients,
    )


def _in_quick(settings: Settings, action: Action, clients: int, size: Size) -> Fits:
    """Few and many clients; of other sizes only what shows whether a small log of ours is faster."""
    few, many = min(settings.clients), max(settings.clients)
    if not size.is_usual:
        return by_command if action == "append" and clients == many else in_no_way
    if clients == many:
        return in_any_way
    if clients != few:
        return in_no_way
    return in_threads_or_on_a_server if action == "append" else in_threads


def _measure(lab: Lab, store: Store, action: Action, clients: int, events: int) -> Measured:
    workload = Workload(events).hot() if action == "cached" else Workload(events)
    with lab.running(store, events=events, writes=True) as running:
        crowd = Crowd(0, clients, clients)
        return Measured.of(drive(store, running.address, action, workload, crowd, lab.settings.seconds))


def _several(lab: Lab, store: Store, action: Action, clients: int) -> Measured:
    workload, seconds = Workload(lab.settings.events), lab.settings.seconds
    with lab.running(store, writes=True) as running:
        sample = drive_processes(
            lab.workers, store, running.address, action, workload, PROCESSES, clients, seconds
        )
        return Measured.of(sample)
