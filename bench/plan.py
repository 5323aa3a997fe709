"""The order of a run: every round measures every case on every store once, in a new order."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import NamedTuple

from . import protocols
from .case import Absent, Case, Measured, RawCase
from .clients import warm_up
from .lab import Lab, Settings
from .results import Measurement
from .stores import Store

# Seconds that a measurement takes beside what is measured, and per million events to copy or to fill a log with: rough,
# and corrected while a run goes on.
OVERHEAD_SECONDS, COPY_SECONDS, FILL_SECONDS = 0.25, 2.5, 26.0
HISTORIES, BYTES_PER_EVENT = 2, 700

OURS = "strandline"  # how the names of our stores begin

# What a peer is measured at with faster settings too.
FAST_GROUPS = ("append", "cycle", "query", "scan", "bulk", "processes", "flushes")


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
    return sorted(turns, key=lambda turn: turn.events == settings.huge)  # what takes longest comes last


def take(turn: Turn, lab: Lab) -> Measurement:
    """Measure, or say why that cannot be done here. If a peer fails, that is a result; if we do, the run ends."""
    load, began, absent = os.getloadavg()[0], perf_counter(), ""
    measured = None
    try:
        measured = turn.measure(lab)
    except Absent as reason:
        absent = str(reason)
    except Exception as error:
        if turn.store.startswith(OURS):
            error.add_note(f"while {turn.case} was measured on {turn.store}")
            raise
        absent = f"it failed in round {turn.round + 1}: {type(error).__name__}: {error}"
    took = perf_counter() - began
    return Measurement(*turn.key, measured, absent, load, lab.foreign_cores, took)


def estimate(turns: Sequence[Turn], settings: Settings) -> float:
    """How many seconds the turns will take, roughly."""
    each = OVERHEAD_SECONDS + settings.seconds + warm_up(settings.seconds)
    copied = sum(turn.events for turn in turns if turn.events != settings.huge)
    return len(turns) * each + (copied * COPY_SECONDS + _filled(turns, settings) * FILL_SECONDS) / 1e6


def disk_bytes(turns: Sequence[Turn], settings: Settings) -> int:
    """How much space the logs will take, roughly."""
    return _filled(turns, settings) * BYTES_PER_EVENT


def _filled(turns: Sequence[Turn], settings: Settings) -> int:
    """The events of all logs that have to be filled."""
    logs = {turn.log: turn.events for turn in turns if turn.log}
    return sum(events * (1 if events == settings.huge else HISTORIES) for events in logs.values())


def _turns(
    cases: Sequence[Case | RawCase], stores: Sequence[Store], number: int, *, is_full: bool
) -> Iterator[Turn]:
    for case in cases:
        if number > 0 and (case.once or (case.once_in_quick and not is_full)):
            continue
        if isinstance(case, RawCase):
            if is_full or case.in_quick:
                yield Turn(case.name, case.store, number, 0, "", case.run)
            continue
        for store in stores:
            is_wanted = case.group in FAST_GROUPS or not store.is_fast
            is_of_face = case.group == protocols.GROUP
            if store.is_face and not is_of_face:
                continue
            if case.fits(store) and (is_wanted if is_full else case.in_quick(store)):
                log = f"{store.home} {store.prefilled_as} {case.log}{case.events}" if case.events else ""
                yield Turn(case.name, store.name, number, case.events, log, _bound(case, store))


def _bound(case: Case, store: Store) -> Callable[[Lab], Measured]:
    return lambda lab: case.run(lab, store)
