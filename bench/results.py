"""From single measurements to medians, and from medians to goals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from .case import Case, Measured, RawCase
from .goals import MATCHES, Goal, Match


@dataclass(frozen=True)
class Measurement:
    """One case on one store in one round; if there is nothing to measure with, `absent` says what is missing."""

    case: str
    store: str
    round: int
    measured: Measured | None
    absent: str = ""
    load_average: float = 0.0
    foreign_cores: float = 0.0
    took_seconds: float = 0.0

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Measurement:
        measured = content["measured"]
        return cls(**content | {"measured": None if measured is None else Measured(**measured)})


@dataclass(frozen=True)
class Summary:
    """All rounds of one case on one store: medians, the spread of the value, the longest wait."""

    case: str
    store: str
    group: str
    title: str
    unit: str
    is_rate: bool
    events: int
    clients: int
    per_tag: int
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
    """The summaries of a run, to be looked up by case and store, and why some are `absent`."""

    def __init__(self, summaries: Iterable[Summary], absent: Mapping[tuple[str, str], str]) -> None:
        self.all = list(summaries)
        self.absent = absent
        self._by_name = {(summary.case, summary.store): summary for summary in self.all}

    @classmethod
    def of(cls, cases: Iterable[Case | RawCase], measurements: Iterable[Measurement]) -> Results:
        """All measurements of these cases, in the order of the cases."""
        rounds: dict[str, dict[str, list[Measurement]]] = {}
        absent = {}
        for one in measurements:
            if one.measured is None:
                absent[one.case, one.store] = one.absent
            else:
                rounds.setdefault(one.case, {}).setdefault(one.store, []).append(one)
        return cls(
            [
                _summary(case, store, all_rounds)
                for case in cases
                for store, all_rounds in rounds.pop(case.name, {}).items()
            ],
            absent,
        )

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Results:
        """The results that the file of a run has."""
        return cls(
            [Summary(**one) for one in content["summaries"]],
            {(one["case"], one["store"]): one["because"] for one in content["absent"]},
        )

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
        whole = self.find(goal.beside, ours.store)
        return ours.median / whole.median if whole and whole.median else None

    def _p99_limit(self, goal: Goal, match: Match, ours: Summary) -> float | None:
        if goal.p99_below != "peer":
            return goal.p99_below
        theirs = self.find(ours.case, match.peer)
        return theirs.p99_ms if theirs else None


def _summary(case: Case | RawCase, store: str, rounds: list[Measurement]) -> Summary:
    measured = [one.measured for one in rounds if one.measured is not None]
    values = [one.value for one in measured]
    return Summary(
        case=case.name,
        store=store,
        group=case.group,
        title=case.title,
        unit=case.unit,
        is_rate=case.is_rate,
        events=case.events,
        clients=case.clients,
        per_tag=case.per_tag,
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
