"""Reads of everything as of one moment, although the server reads page by page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import strandline
from served import ServedLogs
from strandline import Event, EventStore, Query, Unavailable
from strandline.engine import Span
from strandline.reading import ALL_IN_ONE_PAGE

EVENTS = 1_500  # in two pages of the server


@pytest.fixture
def kept() -> Iterator[EventStore]:
    with strandline.connect("memory:") as kept:
        kept.append([Event("A", {"n": n}, tags=["x:1"]) for n in range(EVENTS)])
        yield kept


@pytest.fixture
def store(served: ServedLogs, kept: EventStore) -> Iterator[EventStore]:
    with served.serve(kept).connect() as store:
        yield store


def retag_between_pages(kept: EventStore, monkeypatch: pytest.MonkeyPatch, times: int) -> list[int]:
    """Retag the last event when the first page was read; returns the positions of the retags."""
    read_page, retags = kept.engine.read_page, list[int]()

    def read(query: Query, span: Span, size: int) -> Any:
        page = read_page(query, span, size)
        if span.after == 0 and page.rest is not None and len(retags) < times:
            retags.append(kept.retag(EVENTS, replace={"x": [f"t{len(retags)}"]}).position)
        return page

    monkeypatch.setattr(kept.engine, "read_page", read)
    return retags


@pytest.mark.parametrize("until", [None, EVENTS + 10, EVENTS])
def test_a_retag_between_two_pages_is_seen_whole_or_not_at_all(
    store: EventStore, kept: EventStore, monkeypatch: pytest.MonkeyPatch, until: int | None
) -> None:
    kept.retag(1, add=["y"])  # which was there before
    retags = retag_between_pages(kept, monkeypatch, 2)
    page = store.engine.read_page(Query.tag("x:1"), Span(until=until), ALL_IN_ONE_PAGE)
    assert len(retags) == 2
    assert page.rest is None
    assert page.head == (EVENTS if until == EVENTS else retags[-1])
    assert page.events == list(kept.read(Query.tag("x:1")))
    assert page.events[-1].position == EVENTS - 1


def test_retags_without_end_are_an_error(
    store: EventStore, kept: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    retags = retag_between_pages(kept, monkeypatch, 1_000)
    with pytest.raises(Unavailable, match="retagged all the time"):
        store.engine.read_page(Query.types("A"), Span(), ALL_IN_ONE_PAGE)
    assert len(retags) < 10


def test_everything_comes_in_order_both_ways(store: EventStore, kept: EventStore) -> None:
    forwards = list(kept.read())
    assert store.engine.read_page(Query.all(), Span(), ALL_IN_ONE_PAGE).events == forwards
    backwards = Span(100, 1_400, True)
    assert store.engine.read_page(Query.all(), backwards, ALL_IN_ONE_PAGE).events == forwards[1_399:99:-1]


@pytest.mark.parametrize("is_backwards", [False, True])
def test_no_page_is_larger_than_it_should_be(
    store: EventStore, kept: EventStore, monkeypatch: pytest.MonkeyPatch, *, is_backwards: bool
) -> None:
    monkeypatch.setattr(strandline.engine.http, "LARGEST_PAGE", 3)
    listed = list(kept.read(backwards=is_backwards))
    span, found = Span(backwards=is_backwards), list[Any]()
    while span is not None:
        page = store.engine.read_page(Query.all(), span, 700)
        assert len(page.events) <= 700
        found += page.events
        span = page.rest
    assert found == listed


def test_large_events_come_in_shorter_pages(store: EventStore, kept: EventStore) -> None:
    kept.append([Event("Large", b"x" * 1_000_000) for _ in range(30)])
    assert [event.position for event in store.read(Query.types("Large"))] == list(
        range(EVENTS + 1, EVENTS + 31)
    )
    assert sum(len(event.data) for event in store.read(Query.types("Large"), backwards=True)) == 30_000_000
