"""`connect(read_seconds=…)`: a read or a count that takes longer fails, and the store goes on."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

import strandline
from places import Place
from strandline import AsyncEventStore, Event, EventStore, InvalidInput, Query, QueryItem, Unavailable
from strandline.engine import Page, Span
from strandline.engine.postgres.search import Search
from test_hazards_postgres import with_setting

LIMIT = 0.3


def slowly(_: Any) -> bool:
    time.sleep(0.05)
    return False


SLOW = Query.of(QueryItem(where=slowly))


def is_too_long(error: Unavailable, seconds: float = LIMIT) -> bool:
    told = f"longer than {seconds:g} seconds" in str(error)
    return told and "read_seconds" in error.hint and error.written is False and error.status == 503


@pytest.mark.parametrize("read", ["count", "read", "exists"])
def test_a_longer_read_fails_and_the_store_goes_on(place: Place, read: str) -> None:
    with place.connect(read_seconds=LIMIT) as store:
        store.append([Event("A", {}, tags=["x"]) for _ in range(100)])
        reads = {
            "count": lambda: store.count(SLOW),
            "read": lambda: list(store.read(SLOW)),
            "exists": lambda: store.exists(SLOW),
        }
        for _ in range(2):
            with pytest.raises(Unavailable) as refusal:
                reads[read]()
            assert is_too_long(refusal.value)
        assert (store.head(), store.count(), store.count(Query.tag("x"))) == (100, 100, 100)
        assert len(list(store.read(Query.tag("x")))) == 100
        assert store.append(Event("A", {})).position == 101


def test_a_longer_read_of_a_task_fails(place: Place) -> None:
    async def main() -> None:
        async with place.connect_async(read_seconds=LIMIT) as store:
            await store.append([Event("A", {}, tags=["x"]) for _ in range(100)])
            for call in (store.count(SLOW), store.exists(SLOW), listed(store)):
                with pytest.raises(Unavailable) as refusal:
                    await call
                assert is_too_long(refusal.value)
            assert len([event async for event in store.read(Query.tag("x"))]) == 100
            assert len([event async for event in store.read(Query.tag("x", "y"))]) == 0

    async def listed(store: AsyncEventStore) -> list[Any]:
        return [event async for event in store.read(SLOW)]

    asyncio.run(main())


def test_what_the_database_does_by_itself_is_limited_too(kept: Place) -> None:
    """No function of ours is called in between: the database looks for events with two tags."""
    both = Query.tag("even", "odd")
    with kept.connect() as filling:
        for _ in range(6):
            filling.append([Event("A", {}, tags=["even" if n % 2 else "odd"]) for n in range(5_000)])
        assert filling.count(both) == 0
    with kept.connect(read_seconds=0.001) as store:
        for read in (lambda: store.count(both), lambda: store.exists(both), lambda: list(store.read(both))):
            with pytest.raises(Unavailable) as refusal:
                read()
            assert is_too_long(refusal.value, 0.001)


def test_without_a_limit_there_is_none(place: Place) -> None:
    with place.connect() as store:
        store.append([Event("A", {}) for _ in range(10)])
        assert store.count(SLOW) == 0
        assert store.engine.read_seconds is None


class Pages:
    """Reads in pages of ten candidates, each of which takes a while."""

    def __init__(self, store: EventStore, seconds: float) -> None:
        self._read_page = store.engine.read_page
        self._seconds = seconds
        store.engine.read_page = self  # type: ignore[method-assign]

    def __call__(self, query: Query, span: Span, size: int) -> Page:
        time.sleep(self._seconds)
        page = self._read_page(Query.all(), span, 10)
        return Page([event for event in page.events if query.matches(event)], page.head, page.rest)


def test_pages_without_events_count_together(place: Place) -> None:
    with place.connect(read_seconds=1) as store:
        store.append([Event("A", {}) for _ in range(1_000)])
        Pages(store, 0.05)
        with pytest.raises(Unavailable) as refusal:
            list(store.read(Query.types("Never")))
        assert is_too_long(refusal.value, 1)

        async def read() -> list[Any]:
            return [event async for event in AsyncEventStore(store).read(Query.types("Never"), after=1)]

        store.engine.read_page_awaited = nothing  # type: ignore[method-assign]
        with pytest.raises(Unavailable):
            asyncio.run(read())


async def nothing(*_: Any) -> None:
    return None


def test_a_read_that_finds_events_may_take_as_long_as_it_likes() -> None:
    with strandline.connect("memory:", read_seconds=2) as store:
        store.append([Event("A", {}) for _ in range(60)])
        Pages(store, 0.4)
        begun = time.monotonic()
        read = iter(store.read())
        assert next(read).position == 1
        time.sleep(0.2)  # a consumer that takes its time
        assert len(list(read)) == 59
        assert time.monotonic() - begun > 2


@pytest.mark.parametrize("seconds", [0, -1, True, "5", float("nan"), 86_401])
def test_a_bad_limit_is_refused(tmp_path: Any, seconds: Any) -> None:
    with pytest.raises(InvalidInput, match="read_seconds is a number of seconds"):
        strandline.connect(tmp_path / "new.db", read_seconds=seconds)
    assert list(tmp_path.iterdir()) == []


def test_a_shorter_limit_of_the_session_counts(postgres: Place) -> None:
    with postgres.connect(read_seconds=5) as store:
        assert store.engine.rows("show statement_timeout") == [("5s",)]
    with with_setting(postgres, "statement_timeout=2s").connect(read_seconds=5) as store:
        assert store.engine.rows("show statement_timeout") == [("2s",)]
    with with_setting(postgres, "statement_timeout=9s").connect(read_seconds=5) as store:
        assert store.engine.rows("show statement_timeout") == [("5s",)]


def test_to_open_a_log_has_no_limit(postgres: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a tiny limit would keep a store from being opened."""
    head = Search.head

    def head_slowly(search: Search) -> int:
        search.rows("select pg_sleep(0.05)")
        return head(search)

    monkeypatch.setattr(Search, "head", head_slowly)
    with postgres.connect(read_seconds=0.001) as store, pytest.raises(Unavailable):
        store.head()


def test_appends_have_no_limit(place: Place) -> None:
    with place.connect(read_seconds=0.05) as store:
        store.append(Event("A", {}))
        condition = strandline.AppendCondition(SLOW, after=0)
        assert store.append(Event("B", {}), condition).position == 2
