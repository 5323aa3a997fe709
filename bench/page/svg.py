"""Line charts as SVG: two logarithmic axes, a line per series, a legend."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

from ..wording import short

WIDTH, HEIGHT = 760, 380
LEFT, RIGHT, TOP, BOTTOM = 70, 200, 40, 50
INK, GRID = "#333", "#ddd"


class Series(NamedTuple):
    """A line: its name, its colour, its points from left to right."""

    name: str
    colour: str
    points: Sequence[tuple[float, float]]


class Axis(NamedTuple):
    """A logarithmic scale from one end of the drawing to the other."""

    low: float
    high: float
    begin: float
    end: float

    def at(self, value: float) -> float:
        """Where a value is."""
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)


def chart(title: str, x_label: str, y_label: str, all_series: Sequence[Series]) -> str:
    """The drawing as text."""
    xs = sorted({x for series in all_series for x, _ in series.points})
    ys = [y for series in all_series for _, y in series.points]
    x_axis = Axis(math.log10(xs[0]), math.log10(xs[-1]), LEFT, WIDTH - RIGHT)
    y_axis = Axis(math.floor(math.log10(min(ys))), _above(math.log10(max(ys))), HEIGHT - BOTTOM, TOP)
    middle, centre = (LEFT + WIDTH - RIGHT) / 2, (TOP + HEIGHT - BOTTOM) / 2
    style = f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12" fill="{INK}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {style}>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        _text(middle, 22, title, "middle", ' font-size="15"'),
        *_grid(xs, x_axis, y_axis),
        _text(middle, HEIGHT - 12, x_label, "middle"),
        _text(16, centre, y_label, "middle", f' transform="rotate(-90 16 {centre:.1f})"'),
        *[part for number, series in enumerate(all_series) for part in _line(number, series, x_axis, y_axis)],
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _above(exponent: float) -> int:
    """The next power of ten, with some room."""
    return max(math.ceil(exponent), math.floor(exponent) + 1)


def _grid(xs: Sequence[float], x_axis: Axis, y_axis: Axis) -> Iterator[str]:
    for x in xs:
        at = x_axis.at(x)
        yield f'<path d="M{at:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="{GRID}"/>'
        yield _text(at, HEIGHT - BOTTOM + 18, short(x), "middle")
    for exponent in range(int(y_axis.low), int(y_axis.high) + 1):
        at = y_axis.at(10.0**exponent)
        yield f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="{GRID}"/>'
        yield _text(LEFT - 8, at + 4, short(10.0**exponent), "end")


def _line(number: int, series: Series, x_axis: Axis, y_axis: Axis) -> Iterator[str]:
    places = [(x_axis.at(x), y_axis.at(y)) for x, y in series.points]
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    yield f'<path d="M{path}" fill="none" stroke="{series.colour}" stroke-width="2"/>'
    for x, y in places:
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{series.colour}"/>'
    left, top = WIDTH - RIGHT + 16, TOP + 12 + 20 * number
    yield f'<path d="M{left} {top}h20" stroke="{series.colour}" stroke-width="2"/>'
    yield _text(left + 26, top + 4, series.name, "start")


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(text)}</text>'
