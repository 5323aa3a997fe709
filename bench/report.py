"""The results as tables on the terminal."""

from __future__ import annotations

from typing import Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .case import RAW
from .goals import CRABLET, CRABLET_SETTING, MATCHES, Match
from .results import Results, Summary, Verdict
from .wording import aim, ms, of, short

COLOURS = {"below": "red", "floor": "yellow", "target": "green"}
NUMBERS = ("median", "min–max", "p50 ms", "p99 ms", "max ms", "others")


def print_results(console: Console, results: Results) -> None:
    """One table per peer, the wallet, the limits of the machine, and what could not be measured."""
    for match in MATCHES:
        rows = [one for one in results.all if match.has(one.case, one.store) and one.case not in CRABLET]
        if rows:
            _print(console, match.title, _table(results, match, rows))
    wallet = sorted(
        (one for one in results.all if one.case in CRABLET),
        key=lambda one: (list(CRABLET).index(one.case), one.store),
    )
    if wallet:
        _print(console, f"the wallet, {wallet[0].clients} clients. {CRABLET_SETTING}", _wallet(wallet))
    limits = [one for one in results.all if one.store == RAW]
    if limits:
        _print(console, "limits of this machine", _limits(limits))
    for store, reason in sorted({(store, reason) for (_, store), reason in results.absent.items()}):
        cases = ", ".join(
            case for (case, name), why in results.absent.items() if (name, why) == (store, reason)
        )
        console.print(f"not measured on {store}: {cases}: {reason}", style="yellow", markup=False)


def _print(console: Console, title: str, table: Table) -> None:
    console.print(title, style="italic", markup=False, highlight=False)
    console.print(table)
    console.print()


def _table(results: Results, match: Match, summaries: list[Summary]) -> Table:
    table = _new_table("case", "store", *NUMBERS, "÷ peer", "floor → target", "")
    cases = list(dict.fromkeys(one.case for one in results.all))
    last_case = ""
    for summary in sorted(summaries, key=lambda one: (cases.index(one.case), match.stores.index(one.store))):
        name = "" if summary.case == last_case else summary.case
        last_case = summary.case
        table.add_row(Text(name), summary.store, *_cells(summary), *_comparison(results, match, summary))
    return table


def _wallet(summaries: list[Summary]) -> Table:
    table = _new_table("operation", "store", *NUMBERS, "tried again", "Crablet says")
    for summary in summaries:
        details = summary.details
        refused = f"{details['refused'] / max(1, details['refused'] + details['accepted']):.0%}"
        operation = summary.case.removeprefix("wallet:")
        table.add_row(operation, summary.store, *_cells(summary), refused, f"{CRABLET[summary.case]}/s")
    return table


def _limits(summaries: list[Summary]) -> Table:
    table = _new_table("case", *NUMBERS)
    for summary in summaries:
        table.add_row(Text(summary.title), *_cells(summary))
    return table


def _new_table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        justify: Literal["left", "right"] = (
            "left" if column in {"case", "store", "operation", ""} else "right"
        )
        table.add_column(column, justify=justify, no_wrap=column != "")
    return table


def _cells(summary: Summary) -> list[str]:
    spread = f"{short(summary.min)}–{short(summary.max)}" if summary.rounds > 1 else ""
    unit = "/s" if summary.is_rate else f" {summary.unit}"
    latencies = map(ms, (summary.p50_ms, summary.p99_ms, summary.max_ms))
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
    return [shown, Text(aim(verdicts[0])), Text("; ").join(map(_mark, verdicts))]


def _mark(verdict: Verdict) -> Text:
    mark = Text(f"{of(verdict)}{verdict.reached}", style=COLOURS[verdict.reached])
    if verdict.p99_below_ms is not None:
        colour = COLOURS["target" if verdict.p99_holds else "below"]
        mark.append(f", p99 {'<' if verdict.p99_holds else '≥'} {ms(verdict.p99_below_ms)}", style=colour)
    if verdict.note:
        mark.append(f" ({verdict.note})", style="dim")
    return mark
