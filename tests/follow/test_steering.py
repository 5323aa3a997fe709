"""A follower can be looked at, paused, reset and forgotten, from anywhere."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from follow.following import Seen, Tally, running, some, until
from places import Place
from strandline import (
    EventStore,
    FollowerFailed,
    InvalidInput,
    NotFound,
    Query,
    QueryItem,
)
from strandline.testing import ManualClock


def test_status_says_how_it_is(place: Place) -> None:
    clock = ManualClock()
    with place.connect(clock=clock) as store:
        follower = store.follower("f", Query.tag("a"))
        assert (follower.status().state, follower.status().position) == ("idle", 0)
        store.append(some("a", count=2))
        clock.move(30)
        status = follower.status()
        assert (status.head, status.lag, status.lag_seconds, status.owner) == (2, 2, 30.0, "")
        with running(follower, Seen()):
            until(lambda: follower.status().lag == 0)
            status = follower.status()
            assert (status.state, status.lag_seconds) == ("running", 0.0)
            assert status.owner == store.leases.owner
        assert follower.status().state == "idle"
        assert store.followers() == [follower.status()]


def test_paused_it_delivers_nothing_whoever_runs_it(place: Place) -> None:
    with place.connect() as store:
        seen, follower = Seen(), store.follower("f")
        with running(follower, seen) as outcome:
            store.append(some("a"))
            until(lambda: seen.positions == [1])
            store.follower("f").pause()
            store.append(some("a"))
            until(lambda: follower.status().owner == "", "the runner has let go")
            assert (follower.status().state, seen.positions) == ("paused", [1])
            with pytest.raises(FollowerFailed, match="paused") as refusal:
                store.follower("f").catch_up(seen)
            assert "resume" in refusal.value.hint
            store.follower("f").resume()
            until(lambda: seen.positions == [1, 2])
        assert outcome == [2]


def test_it_can_be_paused_before_it_ever_ran(store: EventStore) -> None:
    store.append(some("a"))
    seen, follower = Seen(), store.follower("f")
    follower.pause()
    with running(store.follower("f"), seen):
        until(lambda: follower.status().state == "paused")
    assert seen.positions == []
    follower.resume()
    follower.catch_up(seen)
    assert seen.positions == [1]


def test_reset_goes_back_to_a_position_or_a_time(place: Place) -> None:
    clock = ManualClock()
    with place.connect(clock=clock) as store:
        for _ in range(4):
            store.append(some("a"))
            clock.move(60)
        seen, follower = Seen(), store.follower("f")
        follower.catch_up(seen)
        assert follower.reset(2) == 2
        assert follower.status().position == 2
        follower.catch_up(seen)
        assert follower.reset(clock.now - timedelta(seconds=90)) == 3
        follower.catch_up(seen)
        assert follower.reset(0) == 0
        follower.catch_up(seen)
        assert seen.positions == [1, 2, 3, 4, 3, 4, 4, 1, 2, 3, 4]
        with pytest.raises(InvalidInput, match="the head of this log is 4"):
            follower.reset(5)
        with pytest.raises(InvalidInput):
            follower.reset(datetime(2026, 1, 1))  # noqa: DTZ001
        assert follower.status().position == 4


def test_a_reset_reaches_whoever_runs_it(store: EventStore) -> None:
    seen, follower = Seen(), store.follower("f")
    store.append(some("a", count=2))
    with running(follower, seen):
        until(lambda: seen.positions == [1, 2])
        store.follower("f").reset(0)
        store.append(some("a"))
        until(lambda: seen.positions[-1] == 3)
    assert seen.positions == [1, 2, 1, 2, 3]


def test_a_reset_of_another_process_reaches_who_waits_for_more(kept: Place) -> None:
    seen = Seen()
    with kept.connect() as store, kept.connect() as other:
        store.append(some("a", count=2))
        with running(store.follower("f"), seen):
            until(lambda: seen.positions == [1, 2])
            other.follower("f").reset(1)
            until(lambda: seen.positions == [1, 2, 2])
            other.follower("f").forget()
            until(lambda: seen.positions == [1, 2, 2, 1, 2])


def test_a_pause_of_another_process_reaches_who_waits_for_more(kept: Place) -> None:
    with kept.connect() as store, kept.connect() as other:
        follower = store.follower("f")
        with running(follower, Seen()):
            until(lambda: follower.status().state == "running")
            other.follower("f").pause()
            until(lambda: follower._run is not None and follower._run.is_waiting)
            other.follower("f").resume()
            until(lambda: follower.status().state == "running")


@pytest.mark.parametrize("position", [0, 1, 4])
def test_a_reset_between_a_read_and_its_transaction_is_noticed(kept: Place, position: int) -> None:
    with kept.connect() as store:
        tally = Tally(kept)
        tally.make(store)
        store.append(some("a", count=3))
        follower, reads = store.follower("f"), []
        follower.catch_up(tally)
        store.append(some("a", count=3))
        read_page = store.engine.read_page

        def read_then_reset(query: Query, span: Any, size: int) -> Any:
            page = read_page(query, span, size)
            if size == 77:
                reads.append(span.after)
                if len(reads) == 1:
                    store.follower("f").reset(position)
            return page

        store.engine.read_page = read_then_reset  # type: ignore[method-assign]
        assert follower.catch_up(tally, batch=77) == 6
        assert reads == [3, position]
        assert tally.positions(store) == [1, 2, 3, *range(position + 1, 7)]


def test_it_can_be_forgotten(store: EventStore) -> None:
    store.append(some("a"))
    follower = store.follower("f")
    follower.catch_up(Seen())
    follower.forget()
    assert store.followers() == []
    seen = Seen()
    follower.catch_up(seen)
    assert seen.positions == [1]


def test_it_is_found_by_its_name_alone_and_steering_keeps_what_it_is(place: Place) -> None:
    query = Query.tag("a")
    with place.connect() as store:
        store.append([*some("a", count=2), *some("b")])
        seen = Seen()
        store.follower("f", query, after=1).catch_up(seen)
        found = store.find_follower("f")
        assert (found.name, found.query) == ("f", query)
        assert found.status() == store.follower("f", query).status()
        found.pause()
        assert store.find_follower("f").status().state == "paused"
        found.resume()
        assert found.reset(0) == 0
        (row,) = store.engine.followers("f")
        assert (row.query, row.start, row.position) == (query.to_json(), 0, 0)
        assert store.follower("f", query).catch_up(seen) == 3
        assert found.catch_up(seen) == 3
        assert seen.positions == [2, 1, 2]


def test_a_follower_that_is_gone_is_not_found_and_not_made(store: EventStore) -> None:
    for name in ("f", "F"):
        with pytest.raises(NotFound, match=f"no follower '{name}'"):
            store.find_follower(name)
    with pytest.raises(InvalidInput):
        store.find_follower("")
    store.follower("f").pause()
    found = store.find_follower("f")
    store.follower("f").forget()
    for use in (found.status, found.pause, found.resume, lambda: found.reset(0), lambda: found.run(Seen())):
        with pytest.raises(NotFound):
            use()
    assert store.followers() == []


def test_a_function_in_its_query_is_kept_from_harm(store: EventStore) -> None:
    query = Query.of(QueryItem(where=lambda data: True))
    store.append(some("a"))
    store.follower("f", query).pause()
    found = store.find_follower("f")
    found.resume()
    assert found.reset(1) == 1
    with pytest.raises(InvalidInput, match="function"):
        found.catch_up(Seen())
    found.reset(0)
    seen = Seen()
    assert store.follower("f", query).catch_up(seen) == 1
    assert seen.positions == [1]
