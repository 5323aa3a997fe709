"""The page: tiles, then one section for each question that people ask about a log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from importlib.resources import files
from math import ceil, log2

from ...engine import Stats
from .charts import columns_over_time, heat_map, histogram, number
from .closeness import Closeness
from .elements import Child, Html, el, joined
from .figures import OTHER, SERIES, SNAPSHOT_FROM, Figures

FIRST_HOT_POWER = ceil(log2(SNAPSHOT_FROM))
STATUS = {
    "recorded": "kept under a condition that is recorded: an audit proves them",
    "unconditional": "written without a condition",
    "not_recorded": "with a condition, but the store was told not to record any",
    "not_auditable": "with a function as condition, which cannot be recorded",
}


def page(name: str, stats: Stats, found: Figures, close: Closeness, made: datetime) -> Html:
    """The whole page as HTML that needs nothing else."""
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("title", f"Strandline: {name}"),
        el("style", Html(files(__package__).joinpath("style.css").read_text())),
    )
    sections = (
        _over_time(found),
        _types(found),
        _kinds(found),
        _hot(found),
        _contention(close),
        _shapes(found),
        _appends(close),
    )
    body = el(
        "main",
        el("h1", name),
        el("p", f"Its events and the boundaries of its decisions, up to position {stats.head:,}."),
        _tiles(stats, close),
        _in_short(found, close),
        *sections,
        el("footer", f"Made by Strandline on {made:%Y-%m-%d %H:%M} UTC. Log {stats.log}."),
    )
    return Html("<!doctype html>\n" + el("html", head, el("body", body), lang="en") + "\n")


def _tiles(stats: Stats, close: Closeness) -> Html:
    tried = stats.appends + stats.refused
    rate = f"{stats.refused / tried:.1%}" if tried else "0%"
    size = f"{stats.size_bytes / 2**20:,.1f} MiB"
    tiles = (
        (number(stats.head), "events"),
        (number(stats.appends), "appends"),
        (number(stats.types), "types"),
        (number(stats.tags), "tags"),
        (rate, f"of appends refused ({stats.refused:,})"),
        (size, "on disk"),
    )
    return el(
        "div",
        [el("div", el("b", value), el("span", told), class_="tile") for value, told in tiles],
        class_="tiles",
    )


def _in_short(found: Figures, close: Closeness) -> Html | None:
    told: list[Child] = []
    if found.hot:
        hottest = found.hot[0]
        told.append(
            ["The hottest tag is ", el("b", hottest.tag), f": {hottest.share:.1%} of all events carry it."]
        )
    if close.most_contended:
        most = close.most_contended[0]
        share = f": {most.near_misses:,} of {most.appends:,} found that others had written since their read."
        told.append(["Decisions by ", el("b", most.tags), f" ({most.types}) met others most often", share])
    proved = close.status.get("recorded", 0)
    if proved:
        told.append(
            f"An audit can prove {proved / sum(close.status.values()):.0%} of the appends right or wrong."
        )
    return el("ul", [el("li", line) for line in told], class_="short") if told else None


def _over_time(found: Figures) -> Html:
    if found.over_time is None:
        return _section("Events over time", "", _nothing("The log is empty."))
    listed = [each.type for each in found.types[:SERIES]]
    if any(moment.type == OTHER for moment in found.over_time.counts):
        listed.append(OTHER)
    legend = el(
        "ul",
        [el("li", el("i", class_=f"s{order}"), type_) for order, type_ in enumerate(listed)],
        class_="legend",
    )
    chart = el("div", columns_over_time(found.over_time, listed), class_="scroll")
    return _section("Events over time", "When events were recorded, in UTC.", chart, legend)


def _types(found: Figures) -> Html:
    most = max((each.events for each in found.types), default=1)
    rows = [(each.type, each.events, f"{each.tags:g}", _bar(each.events / most)) for each in found.types]
    return _section(
        "Types",
        "The most frequent types of events.",
        _table(("type", "events", "tags each", ""), rows, {1, 2}),
    )


def _kinds(found: Figures) -> Html:
    rows = [
        (each.prefix, each.tags, each.events, f"{each.events / each.tags:,.1f}", each.most)
        for each in found.prefixes
    ]
    headings = ("tags that begin with", "how many", "events", "events each", "most")
    chart = (
        el("div", histogram(found.spread, "tags", FIRST_HOT_POWER), class_="scroll")
        if found.spread
        else _nothing("No tags.")
    )
    told = "What the log is about: how many things of each kind there are, and how long their histories are."
    return _section(
        "Tags",
        told,
        _table(headings, rows, {1, 2, 3, 4}),
        el("h3", "Tags by the number of their events"),
        chart,
    )


def _hot(found: Figures) -> Html:
    most = max((each.events for each in found.hot), default=1)
    rows = [
        (
            each.tag,
            each.events,
            f"{each.share:.1%}",
            _bar(each.events / most, hot=each.events >= SNAPSHOT_FROM),
        )
        for each in found.hot
    ]
    told = (
        f"{found.snapshots:,} {'tag has' if found.snapshots == 1 else 'tags have'} {SNAPSHOT_FROM} events or more,"
        " shown in orange. A projection with such a key folds many events each time: the decision cache keeps its state,"
        " and snapshot_every= keeps it for other processes, too."
    )
    return _section("Hot tags", told, _table(("tag", "events", "of all", ""), rows, {1, 2}))


def _contention(close: Closeness) -> Html:
    told = (
        "Between the read and the append of a decision others may write. Each append that was accepted says how many"
        " events came in between, none of which spoiled it. The further to the right, the more a boundary lives in traffic."
    )
    if not close.cells:
        return _section("Contention", told, _nothing("No append has a condition with a read behind it."))
    rows = [
        (
            [each.tags, " ", el("small", each.types)],
            each.appends,
            each.near_misses,
            each.longest,
            f"{each.mean:,.1f}",
        )
        for each in close.most_contended
    ]
    headings = ("boundary", "appends", "with others in between", "longest", "on average")
    chart = el("div", heat_map(close.cells), class_="scroll")
    return _section("Contention", told, chart, _table(headings, rows, {1, 2, 3, 4}))


def _shapes(found: Figures) -> Html:
    rows = [(each.type, each.shape or "none", each.events) for each in found.shapes]
    told = "Which kinds of tags events carry together. A shape that appears seldom may be a mistake."
    return _section("Shapes", told, _table(("type", "tags", "events"), rows, {2}))


def _appends(close: Closeness) -> Html:
    total = sum(close.status.values()) or 1
    rows = [
        (STATUS.get(status, status), appends, f"{appends / total:.1%}")
        for status, appends in sorted(close.status.items(), key=lambda each: -each[1])
    ]
    sizes = (
        [
            el("h3", "Appends by the number of their events"),
            el("div", histogram(close.sizes, "appends"), class_="scroll"),
        ]
        if close.sizes
        else None
    )
    return _section(
        "Appends",
        "What the log knows of its appends.",
        _table(("appends", "how many", "of all"), rows, {1, 2}),
        sizes,
    )


def _section(title: str, told: str, *content: Child) -> Html:
    return el("section", el("h2", title), el("p", told) if told else None, *content)


def _table(headings: Sequence[str], rows: Iterable[Sequence[Child]], numbers: set[int]) -> Html:
    listed = list(rows)
    if not listed:
        return _nothing("None.")
    top = el(
        "tr",
        [
            el("th", heading, scope="col", class_=_kind(place, numbers))
            for place, heading in enumerate(headings)
        ],
    )
    lines = joined(
        el("tr", [_cell(place, cell, numbers) for place, cell in enumerate(row)]) for row in listed
    )
    return el("div", el("table", el("thead", top), el("tbody", lines)), class_="scroll")


def _cell(place: int, cell: Child, numbers: set[int]) -> Html:
    is_bar = isinstance(cell, Html) and cell.startswith("<i")
    return el("td", cell, class_="bar" if is_bar else _kind(place, numbers))


def _kind(place: int, numbers: set[int]) -> str | None:
    return "n" if place in numbers else None


def _bar(share: float, *, hot: bool = False) -> Html:
    return el("i", class_="hot" if hot else None, style=f"width:{share * 100:.1f}%")


def _nothing(told: str) -> Html:
    return el("p", told, class_="none")
