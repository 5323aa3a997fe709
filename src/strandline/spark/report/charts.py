"""Charts as SVG: columns over time, a histogram, a heat map. Colours come from the page's style sheet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta

from ...event import from_microseconds, to_microseconds
from .closeness import Cell
from .elements import Html, el
from .figures import DAY, MINUTE, MONDAY, STEPS, OverTime

WIDTH, HEIGHT = 960, 260
LEFT, BOTTOM, TOP = 56, 28, 12
TICKS = 8
DISTANCES = "events in between"


def number(value: float) -> str:
    """A number for people: 950, 1.2 k, 3.4 M."""
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def columns_over_time(found: OverTime, series: Sequence[str]) -> Html:
    """Stacked columns, one for each piece of time."""
    counts: dict[int, dict[str, int]] = defaultdict(dict)
    for moment in found.counts:
        counts[moment.number][moment.type] = moment.events
    highest = _round_up(max(sum(each.values()) for each in counts.values()))
    wide = (WIDTH - LEFT) / found.moments
    drawn: list[Html] = [*_scale(highest)]
    for place in range(found.moments):
        start = found.start + place * found.step
        below = 0.0
        for order, type_ in enumerate(series):
            events = counts[place].get(type_, 0)
            if not events:
                continue
            high = events / highest * (HEIGHT - TOP - BOTTOM)
            told = f"{type_}: {events:,} events from {_time(start, found)}"
            drawn.append(
                el(
                    "rect",
                    el("title", told),
                    x=_round(LEFT + place * wide),
                    y=_round(HEIGHT - BOTTOM - below - high),
                    width=_round(max(wide - 1, 1)),
                    height=_round(high),
                    class_=f"s{order}",
                )
            )
            below += high
    for place, told in _ticks(found):
        x = LEFT + place * wide
        base = HEIGHT - BOTTOM
        drawn.append(el("line", x1=_round(x), x2=_round(x), y1=base, y2=base + 4, class_="axis"))
        anchor = "start" if x < LEFT + 40 else "end" if x > WIDTH - 40 else "middle"
        drawn.append(el("text", told, x=_round(x), y=HEIGHT - 8, text_anchor=anchor))
    return _svg("Events over time, by type", drawn)


def histogram(spread: Sequence[tuple[int, int]], what: str, hot_from: int | None = None) -> Html:
    """How many things have how many events; those from a power of two on stand out."""
    highest = _round_up(max(count for _, count in spread))
    powers = range(spread[-1][0] + 1)
    found = dict(spread)
    wide = (WIDTH - LEFT) / max(len(powers), 8)
    drawn: list[Html] = [*_scale(highest)]
    for place, power in enumerate(powers):
        count = found.get(power, 0)
        high = count / highest * (HEIGHT - TOP - BOTTOM)
        least, most = 2**power, 2 ** (power + 1) - 1
        label = f"{least:,}" if least == most else f"{number(least)}–{number(most)}"
        if count:
            drawn.append(
                el(
                    "rect",
                    el("title", f"{count:,} {what} have {label} events"),
                    x=_round(LEFT + place * wide),
                    y=_round(HEIGHT - BOTTOM - max(high, 2)),
                    width=_round(wide - 4),
                    height=_round(max(high, 2)),
                    class_="s1" if hot_from is not None and power >= hot_from else "s0",
                )
            )
        x = LEFT + place * wide + (wide - 4) / 2
        drawn.append(el("text", label, x=_round(x), y=HEIGHT - 8, text_anchor="middle"))
    return _svg(f"{what.capitalize()} by their number of events", drawn)


def heat_map(cells: Sequence[Cell]) -> Html:
    """Kinds of boundaries against the number of events that came between read and append."""
    sums: dict[str, int] = defaultdict(int)
    for cell in cells:
        sums[cell.boundary] += cell.appends
    rows = sorted(sums, key=lambda boundary: (-sums[boundary], boundary))[:12]
    powers = range(-1, max(cell.power for cell in cells) + 1)
    found = {(cell.boundary, cell.power): cell.appends for cell in cells}
    # A letter is about 7 wide, whichever it is; the line of distances has a name, too.
    names, line = 24 + 7 * min(36, max(len(boundary) for boundary in (*rows, DISTANCES))), 30
    wide = (WIDTH - names) / max(len(powers), 6)
    high = TOP + line * len(rows) + BOTTOM
    drawn: list[Html] = []
    for place, boundary in enumerate(rows):
        y = TOP + place * line
        shown = boundary or "no tags"
        cut = shown if len(shown) <= 36 else f"{shown[:35]}…"
        drawn.append(
            el("text", cut, el("title", shown), x=names - 12, y=y + 20, text_anchor="end", class_="name")
        )
        for column, power in enumerate(powers):
            appends = found.get((boundary, power), 0)
            share = appends / sums[boundary]
            told = f"{shown}: {appends:,} appends with {_between(power)} events in between"
            drawn.append(
                el(
                    "rect",
                    el("title", told),
                    x=_round(names + column * wide),
                    y=y,
                    width=_round(wide - 2),
                    height=line - 2,
                    rx=2,
                    class_="s1" if power >= 0 else "s0",
                    fill_opacity=_round(0.06 + 0.94 * share**0.5 if appends else 0.04),
                )
            )
    drawn.append(el("text", DISTANCES, x=names - 12, y=high - 8, text_anchor="end"))
    for column, power in enumerate(powers):
        x = names + column * wide + (wide - 2) / 2
        drawn.append(el("text", _between(power), x=_round(x), y=high - 8, text_anchor="middle"))
    return _svg("Events between read and append, by kind of boundary", drawn, high)


def _between(power: int) -> str:
    if power < 0:
        return "0"
    least, most = 2**power, 2 ** (power + 1) - 1
    return str(least) if least == most else f"{number(least)}–{number(most)}"


def _scale(highest: int) -> list[Html]:
    lines = []
    for part in (0.5, 1.0):
        y = _round(HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM))
        lines.append(el("line", x1=LEFT, x2=WIDTH, y1=y, y2=y, class_="grid"))
        lines.append(el("text", number(highest * part), x=LEFT - 8, y=float(y) + 4, text_anchor="end"))
    base = HEIGHT - BOTTOM
    lines.append(el("line", x1=LEFT, x2=WIDTH, y1=base, y2=base, class_="axis"))
    return lines


def _svg(title: str, drawn: Sequence[Html], high: int = HEIGHT) -> Html:
    box = f"0 0 {WIDTH} {high}"
    return el("svg", el("title", title), *drawn, viewBox=box, role="img", aria_label=title)


def _round_up(highest: int) -> int:
    """The next number that makes a good end of a scale: 2, 4, 6, 8, 10, 20, 40 …"""
    size = int(10 ** (len(str(highest)) - 1))
    return next(size * part for part in (1, 2, 4, 6, 8, 10) if size * part >= highest)


def _ticks(found: OverTime) -> list[tuple[int, str]]:
    """The pieces of time that begin where people expect a mark, such as midnight."""
    step = found.step // timedelta(microseconds=1)
    wide = next((wide for wide in STEPS if wide >= step * found.moments / TICKS), STEPS[-1])
    starts = [to_microseconds(found.start) + place * step for place in range(found.moments)]
    marked = [place for place, start in enumerate(starts) if (start - MONDAY) % wide == 0]
    form = "%Y-%m-%d" if wide >= DAY else "%d %b %H:%M" if wide >= MINUTE else "%H:%M:%S"
    return [(place, f"{from_microseconds(starts[place]):{form}}") for place in marked or [0]]


def _time(time: datetime, found: OverTime) -> str:
    seconds = found.step.total_seconds()
    form = "%Y-%m-%d" if seconds >= 86_400 else "%Y-%m-%d %H:%M" if seconds >= 60 else "%Y-%m-%d %H:%M:%S"
    return f"{time:{form}}"


def _round(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
