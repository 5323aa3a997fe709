"""The order of a run: every round measures every case on every store once, in a new order."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from .cases import RAW, Case, Measured, RawCase
from .lab import Lab
from .results import Measurement
from .stores import Store


class Turn(NamedTuple):
    """One measurement to take."""

    case: str
    store: str
    round: int
    measure: Callable[[Lab], Measured]


def plan(cases: Sequence[Case | RawCase], stores: Sequence[Store], rounds: int, seed: int) -> list[Turn]:
    """All turns, shuffled within each round so that no store always comes first or after another."""
    shuffle, turns = random.Random(seed), []
    for number in range(rounds):
        turns_of_round = list(_turns(cases, stores, number))
        shuffle.shuffle(turns_of_round)
        turns += turns_of_round
    return turns


def take(turn: Turn, lab: Lab) -> Measurement:
    """Measure."""
    load = os.getloadavg()[0]
    try:
        measured = turn.measure(lab)
    except Exception as error:
        error.add_note(f"while {turn.case} was measured on {turn.store}")
        raise
    return Measurement(turn.case, turn.store, turn.round, measured, load, lab.foreign_cores)


def _turns(cases: Sequence[Case | RawCase], stores: Sequence[Store], number: int) -> Iterator[Turn]:
    for case in cases:
        if case.once and number > 0:
            continue
        if isinstance(case, RawCase):
            yield Turn(case.name, RAW, number, case.run)
            continue
        for store in stores:
            if case.fits(store):
                yield Turn(case.name, store.name, number, _bound(case, store))


def _bound(case: Case, store: Store) -> Callable[[Lab], Measured]:
    return lambda lab: case.run(lab, store)
