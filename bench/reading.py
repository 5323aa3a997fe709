"""One client alone: queries, scans, batches, and conditions that have a lot to look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

from .case import Case, Fits, Measured, Size, in_any_way, in_no_way, in_threads, label
from .clients import Step, run_threads
from .lab import BATCH, History, Lab
from .steps import bulk_appends, checks, checks_at_head, queries, reads, scans
from .stores import Client, Store
from .workload import HOT_TAG, RARE_TAG, Item, Query, Workload, subscription

# The type is in the log, but never with the tag of a campus; so neither of the two alone rules it out.
NEVER_ON_A_CAMPUS = "CourseDefined"


def cases(size: Size) -> Iterator[Case]:
    """What reads, and what writes without a condition."""
    for name, title, unit, run in (
        ("query", "decision query", "queries/s", _query),
        ("scan", "full scan", "events/s", _scan),
        ("bulk", f"bulk append, batches of {BATCH:,}", "events/s", _bulk),
    ):
        yield Case(
            f"{name}{size.name}",
            name,
            title + size.title,
            unit,
            partial(run, events=size.events),
            size.fits(in_threads),
            size.in_quick(),
            events=size.events,
        )


def conditions(size: Size) -> Iterator[Case]:
    """What a condition costs when its tag has many events, and what it costs to read them."""
    campus = Workload(size.events).campus_events
    stale, hot = "stale check, hot tag, no type matches", campus[HOT_TAG]
    yield _condition("stale", stale, size, hot, partial(_stale, tag=HOT_TAG), in_any_way)
    yield _condition("hot-rare", "check on hot tag AND rare tag", size, hot, _hot_and_rare, in_any_way)
    for tag, number in campus.items():
        of = f"tag with {number:,} events"
        for name, title, run in (
            ("tag-head", f"check at the head, {of}", _at_head),
            ("tag-stale", f"stale check, {of}", _stale),
            ("tag-read", f"read all events, {of}", _read_tag),
        ):
            yield _condition(f"{name}@{label(number)}", title, size, number, partial(run, tag=tag), in_no_way)


def _condition(
    name: str, title: str, size: Size, per_tag: int, run: Callable[..., Measured], in_quick: Fits
) -> Case:
    return Case(
        f"{name}{size.name}",
        "check",
        title + size.title,
        "reads/s" if name.startswith("tag-read") else "appends/s",
        partial(run, events=size.events),
        size.fits(in_threads),
        size.in_quick(in_quick),
        events=size.events,
        per_tag=per_tag,
    )


def _query(lab: Lab, store: Store, events: int) -> Measured:
    decisions = Workload(events).decisions(0, 1)
    return _alone(lab, store, lambda client: queries(client, decisions), events)


def _scan(lab: Lab, store: Store, events: int) -> Measured:
    return _alone(lab, store, scans, events)


def _bulk(lab: Lab, store: Store, events: int) -> Measured:
    batch = list(islice(Workload(BATCH).history(), BATCH))
    return _alone(lab, store, lambda client: bulk_appends(client, batch), events, writes=True)


def _stale(lab: Lab, store: Store, tag: str, events: int) -> Measured:
    return _check(lab, store, (Item((NEVER_ON_A_CAMPUS,), (tag,)),), events)


def _hot_and_rare(lab: Lab, store: Store, events: int) -> Measured:
    return _check(lab, store, (Item((), (HOT_TAG, RARE_TAG)),), events)


def _check(lab: Lab, store: Store, query: Query, events: int) -> Measured:
    event = subscription(0, 0)
    return _alone(lab, store, lambda client: checks(client, query, event), events, "campus", writes=True)


def _at_head(lab: Lab, store: Store, tag: str, events: int) -> Measured:
    query, event = (Item((), (tag,)),), subscription(0, 0)
    return _alone(
        lab, store, lambda client: checks_at_head(client, query, event), events, "campus", writes=True
    )


def _read_tag(lab: Lab, store: Store, tag: str, events: int) -> Measured:
    return _alone(lab, store, lambda client: reads(client, (Item((), (tag,)),)), events, "campus")


def _alone(
    lab: Lab,
    store: Store,
    make: Callable[[Client], Step],
    events: int,
    history: History = "course",
    *,
    writes: bool = False,
) -> Measured:
    with (
        lab.running(store, history, events=events, writes=writes) as running,
        store.connect(running.address) as client,
    ):
        return Measured.of(run_threads([make(client)], lab.settings.seconds))
