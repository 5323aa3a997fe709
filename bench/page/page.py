"""The page: what was run on what, goals, charts, everything, and the words that people wrote."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from ..goals import CRABLET, CRABLET_SETTING, MATCHES, Match
from ..results import Results, Verdict
from ..wording import duration, short
from . import tables
from .plots import HALVES, Plot, plots

PARTS = Path(__file__).parent
BUSY = 0.2  # cores


class Explanation(NamedTuple):
    """Why some goals of one half are not reached."""

    half: str
    cases: list[str]
    text: str


def page(run: dict[str, Any]) -> tuple[str, list[Plot]]:
    """The page and its charts."""
    results = Results.from_json(run)
    charts = list(plots(results, run["settings"]["events"]))
    sections = [
        *_beginning(run, results),
        "## How it is measured",
        _part("method.md"),
        *[section for match in MATCHES for section in _match(results, match)],
        *(["## Charts"] if charts else []),
        *[f"![{plot.title}](performance/{plot.name}.svg)" for plot in charts],
        *_wallet(results),
        "## Durability",
        tables.durability(run["stores"], results),
        "## Limits of the machine",
        tables.limits(results),
        "## What to keep in mind",
        _part("caveats.md"),
        *_not_reached(results),
        *_everything(results),
    ]
    return "\n\n".join(sections) + "\n", charts


def _beginning(run: dict[str, Any], results: Results) -> Iterator[str]:
    yield "# Performance"
    yield (
        "<!-- Made by python -m bench.page from docs/performance/run.json and the parts in bench/page: "
        "do not edit. -->"
    )
    day = datetime.fromisoformat(run["started"])
    kind = "full" if run["settings"]["is_full"] else "quick"
    yield (
        f"`{run['command']}` on {day:%d %B %Y}, the {kind} run, {duration(run['took_seconds'])}. "
        f"[All numbers](performance/run.json)."
    )
    yield tables.table(("", ""), list(tables.machine(run)), texts=2)
    yield from _load(results)
    verdicts = results.verdicts()
    reached = [verdict for verdict in verdicts if verdict.reached != "below"]
    targets = [verdict for verdict in verdicts if verdict.reached == "target"]
    yield (
        f"Of {len(verdicts)} goals that this run has the numbers for, {len(reached)} floors hold and "
        f"{len(targets)} targets are reached. [What is below its floor, and why](#floors-that-are-not-reached)."
    )


def _load(results: Results) -> Iterator[str]:
    foreign = [one.foreign_cores for one in results.all]
    average = sum(foreign) / max(1, len(foreign))
    if average > BUSY:
        yield (
            f"**The machine was busy with other things meanwhile ({average:.1f} cores on average): these figures "
            "say that the benchmark works, and little else.**"
        )
    else:
        yield f"Other processes kept {average:.2f} cores busy meanwhile, on average."


def _match(results: Results, match: Match) -> Iterator[str]:
    if not any(match.has(one.case, one.store) for one in results.all):
        return
    yield f"## {match.title[0].upper()}{match.title[1:]}"
    yield tables.goals(results, match)


def _wallet(results: Results) -> Iterator[str]:
    yield "## The wallet"
    if any(one.case in CRABLET for one in results.all):
        yield CRABLET_SETTING.replace("execute", "`execute`")
        yield tables.wallet(results)
    else:
        yield "It was not a part of this run."


def _not_reached(results: Results) -> Iterator[str]:
    """The goals below their floor, each group with what people found out about it."""
    yield "## Floors that are not reached"
    explanations = _explanations()
    for half, match in HALVES.items():
        below = [verdict for verdict in tables.verdicts(results, match) if verdict.reached == "below"]
        for explanation in explanations:
            about = [v for v in below if explanation.half == half and v.case in explanation.cases]
            if about:
                yield f"### {', '.join(dict.fromkeys(f'`{v.case}`' for v in about))}, {half}"
                yield f"{_shortfalls(about)}\n\n{explanation.text}"
                below = [verdict for verdict in below if verdict not in about]
        if below:
            yield f"### Not explained yet, {half}"
            yield _shortfalls(below)
    if all(verdict.reached != "below" for verdict in results.verdicts()):
        yield "None."


def _shortfalls(verdicts: list[Verdict]) -> str:
    return (
        "; ".join(f"`{v.case}` on {v.store}: {tables.number(v)} (floor {_floor(v)})" for v in verdicts) + "."
    )


def _floor(verdict: Verdict) -> str:
    if verdict.of == "peer":
        return f"{short(verdict.floor)}×"
    return f"{verdict.floor:.0%}" if verdict.of in {"share", "growth"} else short(verdict.floor)


def _explanations() -> list[Explanation]:
    """The sections of the part: a heading names the half and the cases that it is about."""
    pieces = re.split(r"^## (\w+): (.*)$", _part("below.md"), flags=re.MULTILINE)[1:]
    return [
        Explanation(half, cases.split(), text.strip())
        for half, cases, text in zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True)
    ]


def _everything(results: Results) -> Iterator[str]:
    yield "## Everything"
    yield "Median (smallest–largest of the rounds); for rates, below it, p50 / p99 of the latencies."
    for half, match in HALVES.items():
        yield f"### {half}"
        yield tables.everything(results, match)
    if results.absent:
        yield "### Not measured"
        rows = [(f"`{case}`", store, reason) for (case, store), reason in results.absent.items()]
        yield tables.table(("case", "store", "because"), rows, texts=3)


def _part(name: str) -> str:
    return (PARTS / name).read_text().strip()
