"""Spark's jobs on a whole log: rebuilds beside the fold of one process, two tables in one pass, an audit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from time import perf_counter
from typing import Any

from . import auditing
from .case import (
    Case,
    Measured,
    Size,
    both,
    by_command,
    by_command_in_threads_on_a_server,
    in_any_way,
    in_no_way,
    in_threads_embedded,
)
from .clients import Sample
from .folding import in_process, rebuild, rebuild_both, rebuild_each
from .lab import COURSES, History, Lab
from .spark import session
from .stores import Store

Way = Callable[[Any, str], int]

WAYS: dict[str, tuple[str, Way]] = {
    "rebuild": ("read model rebuilt by Spark", rebuild),
    "process": ("read and folded in one process, no table", in_process),
    "two": ("two read models rebuilt by Spark in one pass", rebuild_both),
    "each": ("two read models rebuilt by Spark one after the other", rebuild_each),
}


def cases(size: Size) -> Iterator[Case]:
    """Each way with few keys and with many; of two tables the quick run has those with few."""
    for history, courses in COURSES.items():
        for name, (title, way) in WAYS.items():
            is_quick = name in {"rebuild", "process"} or courses == min(COURSES.values())
            yield Case(
                f"spark:{name}@{history}{size.name}",
                "spark",
                f"{title}, {courses:,} courses{size.title}",
                "events/s",
                partial(_fold, way=way, history=history, events=size.events),
                by_command_in_threads_on_a_server,
                size.in_quick(in_any_way if is_quick else in_no_way),
                log=history,
                events=size.events,
            )
    yield Case(
        f"spark:audit{size.name}",
        "spark",
        f"conditions judged again by Spark{size.title}",
        "appends/s",
        partial(_audit, appends=size.events),
        both(by_command, in_threads_embedded),
        size.in_quick(),
        once=True,
        log="audit",
        events=size.events,
    )


def _fold(lab: Lab, store: Store, way: Way, history: History, events: int) -> Measured:
    """One call; the tables that it makes are replaced by the next."""
    with lab.running(store, history, events=events, writes=False) as running:
        _warm_up(running.address)
        sample = Sample(perf_counter())
        way(session(), running.address)
        sample.add(sample.begin, events)
        return Measured.of(sample)


@cache
def _warm_up(url: str) -> None:
    """Spark works on its first log of a size for longer."""
    rebuild_both(session(), url)


def _audit(lab: Lab, store: Store, appends: int) -> Measured:
    """One audit, which has to find the planted lies; what Spark takes longer for the first time is in it."""
    path = lab.directory / f"audit-{appends}.db"
    lies = auditing.planted(path, appends, auditing.COURSES["many courses"])
    spark = session()
    with lab.watched():
        checked, seconds = auditing.judge(spark, path, lies)
    return Measured(checked / seconds, *[seconds * 1e3] * 3, operations=1)
