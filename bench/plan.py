"""The order of a run: every round measures every case on every store once, in a new order."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import NamedTuple

from .case import Absent, Case, Measured, RawCase
from .lab import Lab, Settings
from .results import Measurement
from .stores import Store

# Seconds that a measurement takes beside what is measured, and per million events to copy or to fill a log with:
# rough, but the same on every machine until the first measurements tell more.
OVERHEAD_SECONDS, COPY_SECONDS, FILL_SECONDS = 0.6, 4.0, 30.0

# What a peer is measured at with faster settings too.
FAST_GROUPS = ("append", "cycle", "query", "scan", "bulk", "processes")


class Turn(NamedTuple):
    """One measurement to take."""

    case: str
    store: str
    round: int
    events: int
    log: str  # what has to be filled for it once
    measure: Callable[[Lab], Measured]

    @property
    def key(self) -> tuple[str, str, int]:
        return self.case, self.store, self.round


def plan(
    cases: Sequence[Case | RawCase], stores: Sequence[Store], seed: int, settings: Settings
) -> list[Turn]:
    """All turns, shuffled within each round so that no store always comes first or after another."""
    shuffle, turns = random.Random(seed), []
    for number in range(settings.rounds):
        turns_of_round = list(_turns(cases, stores, number, is_full=settings.is_full))
        shuffle.shuffle(turns_of_round)
        turns += turns_of_round
    return turns


def take(turn: Turn, lab: Lab) -> Measurement:
    """Measure, or say why that cannot be done here."""
    load, began, absent = os.getloadavg()[0], perf_counter(), ""
    measured = None
    try:
        measured = turn.measure(lab)
    except Absent as reason:
        absent = str(reason)
    except Exception as error:
        error.add_note(f"while {turn.case} was measured on {turn.store}")
        raise
    took = perf_counter() - began
    return Measurement(*turn.key, measured, absent, load, lab.foreign_cores, took)


def estimate(turns: Sequence[Turn], seconds: float) -> float:
    """How many seconds the turns will take, roughly."""
    logs = {turn.log: turn.events for turn in turns if turn.log}
    copied = sum(turn.events for turn in turns)
    each = OVERHEAD_SECONDS + 1.2 * seconds
    return len(turns) * each + (copied * COPY_SECONDS + 2 * sum(logs.values()) * FILL_SECONDS) / 1e6


def _turns(
    cases: Sequence[Case | RawCase], stores: Sequence[Store], number: int, *, is_full: bool
) -> Iterator[Turn]:
    for case in cases:
        if case.once and number > 0:
            continue
        if isinstance(case, RawCase):
            if is_full or case.in_quick:
                yield Turn(case.name, case.store, number, 0, "", case.run)
            continue
        for store in stores:
            is_wanted = case.group in FAST_GROUPS or not store.is_fast
            if case.fits(store) and (is_wanted if is_full else case.in_quick(store)):
                log = f"{store.home} {store.prefilled_as} {case.events}" if case.events else ""
                yield Turn(case.name, store.name, number, case.events, log, _bound(case, store))


def _bound(case: Case, store: Store) -> Callable[[Lab], Measured]:
    return lambda lab: case.run(lab, store)
