"""The panels of a Grafana dashboard as one SVG, each with lines that Prometheus answered."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any
from xml.sax.saxutils import escape

from ..wording import short

Line = tuple[str, list[tuple[float, float]]]
CELL_WIDTH, CELL_HEIGHT = 50, 32
GAP, LEGEND_ROWS = 6, 4
INK, DIM, GRID, PAPER = "#1f2933", "#61707f", "#e4e7eb", "#fff"
COLOURS = ("#0b6e5f", "#c2571a", "#3b5b92", "#8a3f7d", "#8a7a1d", "#5f6b76", "#a83232", "#2f8f9d")


def drawing(panels: Sequence[tuple[dict[str, Any], list[Line]]]) -> str:
    """The whole dashboard; a panel is drawn where its `gridPos` says."""
    bottom = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel, _ in panels)
    width, height = 24 * CELL_WIDTH, bottom * CELL_HEIGHT + GAP
    style = f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11" fill="{INK}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {style}>',
        f'<rect width="{width}" height="{height}" fill="#f5f7fa"/>',
        *[part for panel, lines in panels for part in _panel(panel, lines)],
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _panel(panel: dict[str, Any], lines: list[Line]) -> Iterator[str]:
    place = panel["gridPos"]
    x, y = place["x"] * CELL_WIDTH + GAP / 2, place["y"] * CELL_HEIGHT + GAP / 2
    width, height = place["w"] * CELL_WIDTH - GAP, place["h"] * CELL_HEIGHT - GAP
    if panel["type"] == "row":
        yield _text(x + 4, y + 18, panel["title"], ' font-size="13" font-weight="bold"')
        return
    yield f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{PAPER}" stroke="{GRID}"/>'
    yield _text(x + 8, y + 16, panel["title"], f' fill="{DIM}"')
    unit = panel["fieldConfig"]["defaults"]["unit"]
    if panel["type"] == "stat":
        yield from _figures(lines, unit, x, y, height)
    elif panel["type"] == "timeseries":
        yield from _chart(lines, unit, x, y, width, height)
    else:
        for number, (name, points) in enumerate(lines[:4]):
            yield _text(x + 8, y + 36 + 15 * number, f"{name}: {_words(points[-1][1], unit)}")


def _figures(lines: list[Line], unit: str, x: float, y: float, height: float) -> Iterator[str]:
    for number, (_, points) in enumerate(lines[:2]):
        value = _words(points[-1][1], unit)
        yield _text(x + 10 + 90 * number, y + height / 2 + 18, value, f' font-size="28" fill="{COLOURS[0]}"')


def _chart(lines: list[Line], unit: str, x: float, y: float, width: float, height: float) -> Iterator[str]:
    left, right, top = x + 52, x + width - 10, y + 28
    bottom = y + height - 14 - 13 * min(LEGEND_ROWS, math.ceil(len(lines) / 2))
    times = [at for _, points in lines for at, _ in points]
    highest = _above(max((value for _, points in lines for _, value in points), default=0.0))
    for share in (0.0, 0.5, 1.0):
        at = bottom - share * (bottom - top)
        yield f'<path d="M{left} {at:.1f}H{right}" stroke="{GRID}"/>'
        yield _text(left - 6, at + 4, _words(share * highest, unit), f' text-anchor="end" fill="{DIM}"')
    if not times:
        yield _text((left + right) / 2, (top + bottom) / 2, "no data", f' text-anchor="middle" fill="{DIM}"')
        return
    begin, seconds = min(times), max(times) - min(times) or 1.0
    for number, (name, points) in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        places = [
            f"{left + (at - begin) / seconds * (right - left):.1f} {bottom - value / highest * (bottom - top):.1f}"
            for at, value in points
        ]
        yield f'<path d="M{"L".join(places)}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        if number < 2 * LEGEND_ROWS:
            at_x, at_y = x + 10 + (number % 2) * (width / 2 - 8), bottom + 16 + 13 * (number // 2)
            yield f'<path d="M{at_x} {at_y - 4}h12" stroke="{colour}" stroke-width="2"/>'
            yield _text(at_x + 16, at_y, name[:44], ' font-size="9.5"')


def _above(value: float) -> float:
    """A round number that is not smaller."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)


def _words(value: float, unit: str) -> str:
    if math.isnan(value):
        return "–"
    if unit == "s" and value < 1:
        return f"{value * 1000:.3g} ms"
    if unit == "s":
        return f"{value:.3g} s"
    if unit == "percentunit":
        return f"{value:.1%}"
    if unit == "bytes":
        return f"{value / 1e6:.3g} MB"
    return short(value) if value >= 1000 else f"{value:.3g}"


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{escape(text)}</text>'
