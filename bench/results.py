"""From single measurements to medians, and from medians to goals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

from .cases import Case, Measured, RawCase
from .goals import MATCHES, Goal, Match


@dataclass(frozen=True)
class Measurement:
    """One case on one store in one round."""

    case: str
    store: str
    round: int
    measured: Measured
    load_average: float
    foreign_cores: float


@dataclass(frozen=True)
class Summary:
    """All rounds of one case on one store: medians, the spread of the value, the longest wait."""

    case: str
    store: str
    title: str
    unit: str
    is_rate: bool
    median: float
    min: float
    max: float
    p50_ms: float | None
    p99_ms: float | None
    max_ms: float | None
    rounds: int
    operations: int
    foreign_cores: float
    details: dict[str, Any]


@dataclass(frozen=True)
class Verdict:
    """A number of ours beside what it is to reach; `reached` is `below`, `floor` or `target`."""

    match: str
    case: str
    store: str
    of: str
    beside: str
    number: float
    floor: float
    target: float
    reached: str
    p99_below_ms: float | None
    p99_holds: bool | None
    note: str


class Results:
    """The summaries of a run, to be looked up by case and store."""

    def __init__(self, cases: Iterable[Case | RawCase], measurements: Iterable[Measurement]) -> None:
        rounds: dict[tuple[str, str], list[Measurement]] = {}
        for one in measurements:
            rounds.setdefault((one.case, one.store), []).append(one)
        self._by_name = {
            (case.name, store): _summary(case, store, all_rounds)
            for case in cases
            for (name, store), all_rounds in rounds.items()
            if name == case.name
        }
        self.all = list(self._by_name.values())

    def find(self, case: str, store: str) -> Summary | None:
        """The summary of this case on this store."""
        return self._by_name.get((case, store))

    def ratio(self, ours: Summary, peer: str, beside: str = "") -> float | None:
        """Ours divided by the peer's number in the same case, or in another."""
        theirs = self.find(beside or ours.case, peer)
        return ours.median / theirs.median if theirs and theirs.median else None

    def verdicts(self) -> list[Verdict]:
        """Every goal that this run has the numbers for."""
        return [
            verdict
            for match in MATCHES
            for summary in self.all
            if summary.store in match.ours
            for verdict in self.verdicts_on(match, summary)
        ]

    def verdicts_on(self, match: Match, ours: Summary) -> list[Verdict]:
        """Whether the goals of this case are reached, as far as there is a number to compare with."""
        found = [self._verdict(match, goal, ours) for goal in match.goals(ours.case, ours.store)]
        return [verdict for verdict in found if verdict is not None]

    def _verdict(self, match: Match, goal: Goal, ours: Summary) -> Verdict | None:
        number = self._number(goal, match, ours)
        if number is None:
            return None
        is_floor, is_target = (
            (number <= goal.floor, number <= goal.target)
            if goal.of == "value"
            else (number >= goal.floor, number >= goal.target)
        )
        limit = self._p99_limit(goal, match, ours)
        return Verdict(
            match=match.peer,
            case=ours.case,
            store=ours.store,
            of=goal.of,
            beside=goal.beside,
            number=number,
            floor=goal.floor,
            target=goal.target,
            reached="target" if is_target else "floor" if is_floor else "below",
            p99_below_ms=limit,
            p99_holds=None if limit is None or ours.p99_ms is None else ours.p99_ms < limit,
            note=goal.note,
        )

    def _number(self, goal: Goal, match: Match, ours: Summary) -> float | None:
        if goal.of in {"value", "rate"}:
            return ours.median
        if goal.of == "peer":
            return self.ratio(ours, match.peer, goal.beside)
        if goal.of == "share":
            whole = self.find(goal.beside, ours.store)
            return ours.median / whole.median if whole and whole.median else None
        full = self.find(ours.case.removeprefix("small:"), ours.store)
        return full.median / ours.median if full else None

    def _p99_limit(self, goal: Goal, match: Match, ours: Summary) -> float | None:
        if goal.p99_below != "peer":
            return goal.p99_below
        theirs = self.find(ours.case, match.peer)
        return theirs.p99_ms if theirs else None


def _summary(case: Case | RawCase, store: str, rounds: list[Measurement]) -> Summary:
    measured = [one.measured for one in rounds]
    values = [one.value for one in measured]
    return Summary(
        case=case.name,
        store=store,
        title=case.title,
        unit=case.unit,
        is_rate=case.is_rate,
        median=median(values),
        min=min(values),
        max=max(values),
        p50_ms=_middle(one.p50_ms for one in measured),
        p99_ms=_middle(one.p99_ms for one in measured),
        max_ms=max((one.max_ms for one in measured if one.max_ms is not None), default=None),
        rounds=len(rounds),
        operations=sum(one.operations for one in measured),
        foreign_cores=median(one.foreign_cores for one in rounds),
        details=measured[-1].details,
    )


def _middle(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
