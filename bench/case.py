"""What a case is: something to measure on every store that it fits, or a limit that needs no store of ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .clients import Sample
from .homes import HomeName
from .lab import Lab
from .stores import Store

RAW = "raw"


class Absent(Exception):
    """What it takes to measure something is not on this machine; the report says so."""


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
    def of(cls, sample: Sample, **details: Any) -> Measured:
        """The rate and latencies of a sample."""
        return cls(
            sample.rate,
            sample.percentile(50) * 1e3,
            sample.percentile(99) * 1e3,
            max(sample.latencies) * 1e3,
            len(sample.latencies),
            details,
        )


Fits = Callable[[Store], bool]


def in_any_way(store: Store) -> bool:
    return True


def in_no_way(store: Store) -> bool:
    return False


def in_threads(store: Store) -> bool:
    return not store.is_async


def in_threads_or_on_a_server(store: Store) -> bool:
    return in_threads(store) or store.home == "postgres"


def in_threads_embedded(store: Store) -> bool:
    return in_threads(store) and store.home == "embedded"


def by_command(store: Store) -> bool:
    return store.has_commands


def by_command_in_threads(store: Store) -> bool:
    return store.has_commands and in_threads(store)


def by_command_in_threads_on_a_server(store: Store) -> bool:
    return by_command_in_threads(store) and store.home == "postgres"


def both(one: Fits, other: Fits) -> Fits:
    """What fits both."""
    return lambda store: one(store) and other(store)


@dataclass(frozen=True)
class Case:
    """Something to measure, on every store that it `fits`; the quick run asks `in_quick` too."""

    name: str
    group: str
    title: str
    unit: str
    run: Callable[[Lab, Store], Measured]
    fits: Fits
    in_quick: Fits = in_any_way
    is_rate: bool = True
    once: bool = False  # what does not vary from round to round, or takes too long
    once_in_quick: bool = False  # what has no goal, or takes too long there
    log: str = ""  # the name of its log, if it has one of its own
    events: int = 0  # in the log; 0: as many as the settings say
    clients: int = 1
    per_tag: int = 0  # events of the tag that this is about


@dataclass(frozen=True)
class RawCase:
    """A limit of the machine or of a server, or a peer that brings its own clients."""

    name: str
    title: str
    unit: str
    home: HomeName
    run: Callable[[Lab], Measured]
    group: str = RAW
    store: str = RAW
    in_quick: bool = True
    is_rate: bool = True
    once: bool = False
    once_in_quick: bool = True  # it has no goal
    events: int = 0
    clients: int = 1
    per_tag: int = 0


@dataclass(frozen=True)
class Size:
    """How many events there are in the log; names and titles speak of it unless it is the usual one."""

    events: int
    is_usual: bool = False

    @property
    def name(self) -> str:
        return "" if self.is_usual else f":{label(self.events)}"

    @property
    def title(self) -> str:
        return "" if self.is_usual else f", {label(self.events)} events"

    def fits(self, fits: Fits) -> Fits:
        """With other sizes, peers are measured with their default settings only."""
        return fits if self.is_usual else lambda store: fits(store) and not store.is_fast

    def in_quick(self, fits: Fits = in_any_way) -> Fits:
        return fits if self.is_usual else in_no_way


def count(clients: int) -> str:
    """`1 client`, `64 clients`."""
    return f"{clients} client{'s' * (clients > 1)}"


def label(events: int) -> str:
    """A size as names of cases have it: 300, 1k, 100k, 10M."""
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if events and events % size == 0:
            return f"{events // size}{letter}"
    return str(events)
