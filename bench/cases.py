"""What is measured, in the order of the report. A new theme is a module with `cases`, and a line here.

The name of a case ends with the size of the log (`append@64:1M`) unless that is the usual one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from . import deciding, following, footprint, jobs, limits, protocols, reading, spark, subscribing, wallets
from .case import Case, RawCase, Size, both, by_command, in_no_way
from .lab import Settings
from .peers import event_storage

HUGE_GROUPS = ("append", "cycle", "query", "scan", "memory")


def raw_cases(settings: Settings) -> list[RawCase]:
    """The limits of the machine and of a PostgreSQL server on it, and peers that bring their own clients."""
    return [*limits.cases(settings), *event_storage.cases(settings)]


def store_cases(settings: Settings) -> list[Case]:
    """What these settings ask for."""
    usual, many = Size(settings.events, is_usual=True), max(settings.clients)
    return [
        *deciding.cases(settings, usual),
        *deciding.contention(settings, usual),
        *reading.cases(usual),
        *following.cases(settings),
        *subscribing.cases(),
        *protocols.cases(settings),
        *spark.cases(usual),
        *jobs.cases(usual),
        *reading.conditions(usual),
        *deciding.processes(settings),
        *[case for events in settings.sizes for case in _in_a_log_of(events, settings)],
        *_in_a_huge_log(settings),
        *wallets.cases(many),
        *footprint.cases(settings, usual),
    ]


def _in_a_log_of(events: int, settings: Settings) -> Iterator[Case]:
    size = Size(events)
    yield from deciding.cases(settings, size)
    yield from reading.cases(size)
    if events > settings.events:
        yield from reading.conditions(size)
        yield from spark.cases(size)
        yield from jobs.cases(size)
    yield footprint.memory(size)


def _in_a_huge_log(settings: Settings) -> Iterator[Case]:
    """Ours alone and once: it takes minutes to fill, and others longer."""
    few_and_many = {min(settings.clients), max(settings.clients)}
    for case in _in_a_log_of(settings.huge, settings) if settings.huge else ():
        if case.group in HUGE_GROUPS and case.clients in few_and_many:
            yield replace(case, once=True, in_quick=in_no_way, fits=both(by_command, case.fits))
