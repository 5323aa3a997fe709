"""Which charts a run gives: throughput against clients, cost against the log's size and against events per tag."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..goals import EMBEDDED, POSTGRES, Match
from ..results import Results, Summary
from .svg import Series, chart

HALVES = {"embedded": EMBEDDED, "postgres": POSTGRES}
PLACES = {"embedded": "embedded", "postgres": "on PostgreSQL"}
COLOURS = ("#0050b3", "#40a9ff", "#d4380d", "#ffa940", "#595959", "#a6a6a6")

Value = Callable[[Summary], float | None]


class Plot(NamedTuple):
    """A file and what it shows."""

    name: str
    title: str
    svg: str


def plots(results: Results, usual_events: int) -> Iterator[Plot]:
    """Every chart with at least one line."""
    for half, match in HALVES.items():
        for plot in (
            *_against_clients(half, results, match, usual_events),
            *_against_size(half, results, match, usual_events),
            *_against_tag(half, results, match),
        ):
            if plot is not None:
                yield plot


def _against_clients(half: str, results: Results, match: Match, usual: int) -> Iterator[Plot | None]:
    for group, title in (("append", "Conditional appends"), ("cycle", "Cycles (read + append)")):
        chosen = [one for one in results.all if one.group == group and one.events in {0, usual}]
        yield _plot(
            f"clients-{group}-{half}",
            f"{title} {PLACES[half]}",
            ("clients at once", "per second"),
            _series(match, chosen, lambda one: one.clients, lambda one: one.median),
        )


def _against_size(half: str, results: Results, match: Match, usual: int) -> Iterator[Plot | None]:
    for case, title in (
        ("append@1", "One client's conditional append"),
        ("cycle@1", "One client's cycle (read + append)"),
        ("query", "One client's decision query"),
    ):
        chosen = [one for one in results.all if one.case.split(":")[0] == case]
        yield _plot(
            f"size-{case.split('@')[0]}-{half}",
            f"{title} {PLACES[half]}",
            ("events in the log", "ms (median)"),
            _series(match, chosen, lambda one: one.events or usual, lambda one: one.p50_ms),
        )


def _against_tag(half: str, results: Results, match: Match) -> Iterator[Plot | None]:
    for case, title in (
        ("tag-head", "Append, condition on a tag since the last append"),
        ("tag-stale", "Append, condition on a tag and a type since the beginning"),
        ("tag-read", "Reading all events of a tag"),
    ):
        found = [one for one in results.all if one.case.startswith(f"{case}@")]
        largest = max((one.events for one in found), default=0)
        chosen = [one for one in found if one.events == largest]
        yield _plot(
            f"{case}-{half}",
            f"{title}, {PLACES[half]}",
            (f"events of the tag, in a log of {largest:,}", "ms (median)"),
            _series(match, chosen, lambda one: one.per_tag, lambda one: one.p50_ms),
        )


def _series(match: Match, chosen: list[Summary], x: Value, y: Value) -> list[Series]:
    found = []
    for store, colour in zip(match.stores, COLOURS, strict=False):
        pairs = sorted((x(one), y(one)) for one in chosen if one.store == store and y(one))
        points = [(float(at), float(value)) for at, value in pairs if at and value]
        if len(points) > 1:
            found.append(Series(store, colour, points))
    return found


def _plot(name: str, title: str, labels: tuple[str, str], series: list[Series]) -> Plot | None:
    return Plot(name, title, chart(title, *labels, series)) if series else None
