"""The tables of the page, in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..goals import CRABLET, Match
from ..results import Results, Summary, Verdict
from ..wording import aim, ms, short

REACHED = {"below": "**below the floor**", "floor": "floor", "target": "target"}


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, texts: int) -> str:
    """Markdown; so many columns are texts, those after them are numbers."""
    lines = [head, [*["---"] * texts, *["---:"] * (len(head) - texts)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def goals(results: Results, match: Match) -> str:
    """Each goal with our number, the peer's, and whether it is reached."""
    rows = [_goal(results, match, verdict) for verdict in verdicts(results, match)]
    head = ("case", "store", "ours", "peer", "is", "beside its fast setting", "floor → target", "reached")
    return table(head, rows, texts=2)


def verdicts(results: Results, match: Match) -> list[Verdict]:
    """The goals of one half, in the order of cases and stores."""
    cases = list(dict.fromkeys(one.case for one in results.all))
    found = [verdict for verdict in results.verdicts() if verdict.store in match.ours]
    return sorted(found, key=lambda one: (cases.index(one.case), match.stores.index(one.store)))


def everything(results: Results, match: Match) -> str:
    """A row per case, a column per store: median (spread), and the median and 99th percentile of the latencies."""
    stores = [name for name in match.stores if any(one.store == name for one in results.all)]
    cases = dict.fromkeys(
        one.case for one in results.all if match.has(one.case, one.store) and one.case not in CRABLET
    )
    rows = []
    for case in cases:
        found = {store: results.find(case, store) for store in stores}
        first = next(one for one in found.values() if one is not None)
        rows.append((f"{first.title} (`{case}`), {first.unit}", *[_cell(one) for one in found.values()]))
    return table(("", *stores), rows, texts=1)


def wallet(results: Results) -> str:
    """Ours beside Crablet's own figures."""
    rows = [
        (
            summary.title.removeprefix("wallet: "),
            summary.store,
            f"{short(summary.median)}/s",
            f"{ms(summary.p50_ms)} / {ms(summary.p99_ms)}",
            _share_refused(summary),
            f"{figure:,}/s",
        )
        for case, figure in CRABLET.items()
        for summary in sorted(results.all, key=lambda one: one.store)
        if summary.case == case
    ]
    return table(
        ("operation", "store", "ours", "p50 / p99 ms", "tried again", "Crablet's figure"), rows, texts=2
    )


def limits(results: Results) -> str:
    """What the machine can do."""
    rows = [
        (one.title, f"{short(one.median)} ({_spread(one)})", ms(one.p50_ms), ms(one.p99_ms))
        for one in results.all
        if one.store == "raw"
    ]
    return table(("", "per second", "p50 ms", "p99 ms"), rows, texts=1)


def durability(stores: dict[str, Any], results: Results) -> str:
    """What each store says it does, and what strace saw."""
    rows = []
    for name, store in stores.items():
        if name.endswith("-async"):  # the same store, with other clients
            continue
        seen = results.find("flushes", name)
        calls = seen.details["calls"] if seen else {}
        shown = ", ".join(f"{count} × `{call}`" for call, count in calls.items())
        looked = f"{shown or 'none'} in {seen.details['appends']} appends" if seen else "not looked at"
        rows.append((f"{name} {store['version']}", store["durability"], looked))
    return table(("", "what it does", "what strace saw"), rows, texts=3)


def machine(run: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What was measured on."""
    about = run["machine"]
    yield "machine", f"{about['cores']} cores ({about['cpu']}), {about['memory_mib'] / 1024:.0f} GiB"
    yield "system", f"{about['kernel']}, {about['file_system']}"
    yield "versions", f"Python {about['python']}, SQLite {about['sqlite']} (apsw {about['apsw']})"
    if "postgres" in about:
        server = dict(about["postgres"])
        version = server.pop("version")
        yield "PostgreSQL", f"{version}: {', '.join(f'{name} {value}' for name, value in server.items())}"


def number(verdict: Verdict) -> str:
    """The number that is compared with the goal, in the words of its kind."""
    if verdict.of == "peer":
        return f"{short(verdict.number)}×"
    if verdict.of in {"share", "growth"}:
        return f"{verdict.number:.0%} of `{verdict.beside}`"
    return short(verdict.number)


def _goal(results: Results, match: Match, verdict: Verdict) -> tuple[str, ...]:
    ours = results.find(verdict.case, verdict.store)
    theirs, theirs_fast = (
        results.find(verdict.beside or verdict.case, peer) if verdict.of == "peer" else None
        for peer in (match.peer, f"{match.peer}-fast")
    )
    reached = REACHED[verdict.reached]
    if verdict.p99_below_ms is not None:
        holds = f"p99 below {ms(verdict.p99_below_ms)} ms"
        reached += f", {holds}" if verdict.p99_holds else f", **not {holds}**"
    note = f" ({verdict.note})" if verdict.note else ""
    return (
        f"`{verdict.case}`",
        verdict.store,
        _value(ours),
        _value(theirs),
        number(verdict),
        f"{short(ours.median / theirs_fast.median)}×" if ours and theirs_fast else "",
        aim(verdict),
        reached + note,
    )


def _value(summary: Summary | None) -> str:
    if summary is None:
        return ""
    return f"{short(summary.median)}{'/s' if summary.is_rate else ' ' + summary.unit}"


def _cell(summary: Summary | None) -> str:
    if summary is None:
        return ""
    spread = f" ({_spread(summary)})" if summary.rounds > 1 else ""
    latency = f"<br>{ms(summary.p50_ms)} / {ms(summary.p99_ms)} ms" if summary.is_rate else ""
    return f"{short(summary.median)}{spread}{latency}"


def _spread(summary: Summary) -> str:
    return f"{short(summary.min)}–{short(summary.max)}"


def _share_refused(summary: Summary) -> str:
    refused, accepted = summary.details["refused"], summary.details["accepted"]
    return f"{refused / max(1, refused + accepted):.0%}"
