"""The results as a table on the terminal and as a JSON file."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .goals import MATCHES, Match
from .results import Measurement, Results, Summary, Verdict

COLOURS = {"below": "red", "floor": "yellow", "target": "green"}


def print_results(console: Console, results: Results) -> None:
    """Limits of the machine first, then one table per peer."""
    shown: set[str] = set()
    for match in MATCHES:
        if any(summary.store in match.stores for summary in results.all):
            console.print(_table(results, match))
            console.print()
            shown.update(match.stores)
    rest = [summary for summary in results.all if summary.store not in shown]
    if rest:
        console.print(_limits(rest))


def write_json(path: Path, run: dict[str, Any], results: Results, measurements: list[Measurement]) -> None:
    """Everything there is to know about the run."""
    content = {
        **run,
        "summaries": [asdict(summary) for summary in results.all],
        "goals": [asdict(verdict) for verdict in results.verdicts()],
        "measurements": [asdict(one) for one in measurements],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")


def _table(results: Results, match: Match) -> Table:
    table = Table(
        title=Text(match.title), title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0)
    )
    table.add_column("case", no_wrap=True)
    table.add_column("store", no_wrap=True)
    for name in (
        "median",
        "min–max",
        "p50 ms",
        "p99 ms",
        "max ms",
        "others",
        "÷ peer",
        "floor → target",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    summaries = [summary for summary in results.all if summary.store in match.stores]
    last_case = ""
    for summary in sorted(summaries, key=lambda one: _order(results, one, match.stores)):
        name = "" if summary.case == last_case else summary.case
        last_case = summary.case
        table.add_row(Text(name), summary.store, *_cells(summary), *_comparison(results, match, summary))
    return table


def _order(results: Results, summary: Summary, stores: tuple[str, ...]) -> tuple[int, int]:
    cases = list(dict.fromkeys(one.case for one in results.all))
    return cases.index(summary.case), stores.index(summary.store)


def _limits(summaries: list[Summary]) -> Table:
    table = Table(
        title="limits of this machine", title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0)
    )
    table.add_column("case")
    for name in ("median", "min–max", "p50 ms", "p99 ms", "max ms", "others"):
        table.add_column(name, justify="right", no_wrap=True)
    for summary in summaries:
        table.add_row(Text(summary.title), *_cells(summary))
    return table


def _cells(summary: Summary) -> list[str]:
    spread = f"{short(summary.min)}–{short(summary.max)}" if summary.rounds > 1 else ""
    unit = "/s" if summary.is_rate else f" {summary.unit}"
    latencies = map(_ms, (summary.p50_ms, summary.p99_ms, summary.max_ms))
    return [short(summary.median) + unit, spread, *latencies, f"{summary.foreign_cores:.1f}"]


def _comparison(results: Results, match: Match, summary: Summary) -> list[Text]:
    if summary.store == match.peer:
        return [Text(), Text(), Text()]
    verdicts = results.verdicts_on(match, summary)
    beside = verdicts[0].beside if verdicts and verdicts[0].of == "peer" else ""
    ratio = results.ratio(summary, match.peer, beside)
    shown = Text("" if ratio is None else f"{short(ratio)}×")
    if not verdicts:
        return [shown, Text(), Text()]
    return [shown, Text(_aim(verdicts[0])), Text("; ").join(map(_mark, verdicts))]


def _mark(verdict: Verdict) -> Text:
    mark = Text(f"{_of(verdict)}{verdict.reached}", style=COLOURS[verdict.reached])
    if verdict.p99_below_ms is not None:
        colour = COLOURS["target" if verdict.p99_holds else "below"]
        mark.append(f", p99 {'<' if verdict.p99_holds else '≥'} {_ms(verdict.p99_below_ms)}", style=colour)
    if verdict.note:
        mark.append(f" ({verdict.note})", style="dim")
    return mark


def _aim(verdict: Verdict) -> str:
    if verdict.of == "value":
        return f"≤ {short(verdict.floor)}"
    if verdict.of == "rate":
        return f"≥ {short(verdict.floor)}"
    if verdict.of == "peer":
        return f"{short(verdict.floor)}× → {short(verdict.target)}×"
    return f"{verdict.floor:.0%} → {verdict.target:.0%}"


def _of(verdict: Verdict) -> str:
    if verdict.of == "growth":
        return f"{verdict.number:.0%} left: "
    if verdict.of == "share":
        wanted = "≥" if verdict.reached != "below" else "<"
        return f"{verdict.number:.0%} of {verdict.beside} ({wanted} {verdict.floor:.0%}): "
    return ""


def short(number: float) -> str:
    """Three digits are enough."""
    for size, letter in ((1e6, " M"), (1e3, " k")):
        if abs(number) >= 10 * size or (size == 1e6 and abs(number) >= size):
            return f"{number / size:.3g}{letter}"
    return f"{number:.0f}" if abs(number) >= 100 else f"{number:.3g}"


def _ms(milliseconds: float | None) -> str:
    return (
        "" if milliseconds is None else short(milliseconds) if milliseconds >= 10 else f"{milliseconds:.2f}"
    )
