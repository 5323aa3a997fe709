"""A retag of an event that a follower has read, or should have read, stops it. Any other does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from follow.following import Seen, Tally, running, some, until
from places import Place
from strandline import Event, EventStore, FollowerFailed, Query, QueryItem, SequencedEvent


def test_a_retag_that_takes_a_delivered_event_away_stops_it(store: EventStore) -> None:
    store.append(some("k:1", count=3))
    seen, follower = Seen(), store.follower("f", Query.tag("k:1"))
    follower.catch_up(seen)
    store.retag([2], replace={"k": ["2"]})
    with pytest.raises(FollowerFailed, match="the retag at 4 changed") as failure:
        follower.catch_up(seen)
    assert "reset(0)" in failure.value.hint
    status = follower.status()
    assert (status.state, status.position) == ("failed", 3)
    assert "retag at 4" in status.error
    follower.reset(0)
    assert follower.status().state == "idle"
    follower.catch_up(seen)
    assert seen.positions == [1, 2, 3, 1, 3]


def test_a_retag_that_gives_it_an_older_event_stops_it(store: EventStore) -> None:
    store.append([*some("k:1"), *some("k:2"), *some("k:1")])
    seen, follower = Seen(), store.follower("f", Query.tag("k:1"))
    with running(follower, seen) as outcome:
        until(lambda: seen.positions == [1, 3])
        store.retag([2], add=["k:1"])
        until(lambda: outcome)
    assert isinstance(outcome[0], FollowerFailed)
    follower.reset(store.head())  # whoever runs it has put things right
    store.append(some("k:1"))
    follower.catch_up(seen)
    assert seen.positions == [1, 3, 5]


@pytest.mark.parametrize(
    "retag",
    [
        lambda store: store.retag([2], add=["vip"]),
        lambda store: store.retag([2], replace={"k": ["3"]}),
        lambda store: store.retag([4], replace={"k": ["1"]}),
        lambda store: store.retag([5], replace={"k": ["2"]}),
        lambda store: store.retag([3], add=["k:1"]),
    ],
)
def test_a_retag_that_changes_nothing_it_delivered_is_passed(store: EventStore, retag: Any) -> None:
    """Other events, events still to come, and a type that the query does not ask for."""
    query = Query.of(QueryItem(types=["Happened"], tags=["k:1"]))
    store.append([*some("k:1"), *some("k:2"), *some(type="Other")])
    seen, follower = Seen(), store.follower("f", query)
    follower.catch_up(seen)
    store.append([*some("k:2"), *some("k:1")])
    retag(store)
    assert follower.catch_up(seen) == 6
    expected = [event.position for event in store.read(query)]
    assert seen.positions == expected


@pytest.mark.parametrize(
    "query",
    [
        Query.tag("k:1"),
        Query.types("Happened"),
        Query.user(),
        Query.of(QueryItem(where=lambda event: True)),
        Query.tag("k:1") | Query.tag("k:2"),
    ],
)
def test_a_retag_of_a_delivered_event_that_the_query_keeps_stops_it(store: EventStore, query: Query) -> None:
    """Its handler may have looked at the tags."""
    store.append(some("k:1", count=2))
    seen, follower = Seen(), store.follower("f", query)
    follower.catch_up(seen)
    store.retag([1], replace={"k": ["1", "2"]})
    with pytest.raises(FollowerFailed, match="the retag at 3 changed"):
        follower.catch_up(seen)


def test_an_event_that_moves_from_one_item_to_another_stops_it(store: EventStore) -> None:
    store.append(some("k:1", count=2))
    seen, follower = Seen(), store.follower("f", Query.tag("k:1") | Query.tag("k:2"))
    follower.catch_up(seen)
    store.retag([1], replace={"k": ["2"]})
    with pytest.raises(FollowerFailed, match="the retag at 3 changed"):
        follower.catch_up(seen)


@pytest.mark.parametrize("query", [Query.all(), Query.types("Happened", "$retagged")])
def test_a_follower_of_retags_reads_them_like_any_event(store: EventStore, query: Query) -> None:
    store.append(some("k:1", count=2))
    seen, follower = Seen(), store.follower("f", query)
    follower.catch_up(seen)
    store.retag([1], add=["vip"])
    assert follower.catch_up(seen) == 3
    assert seen.positions == [1, 2, 3]


def test_a_query_whose_callable_looks_at_tags_is_asked_with_those_before_and_after(store: EventStore) -> None:
    store.append(some("k:1", count=2))
    query = Query.of(QueryItem(where=lambda event: "vip" in event.tags))
    seen, follower = Seen(), store.follower("f", query)
    follower.catch_up(seen)
    store.retag([1], add=["slow"])
    assert follower.catch_up(seen) == 3
    store.retag([1], add=["vip"])
    with pytest.raises(FollowerFailed, match="the retag at 4 changed"):
        follower.catch_up(seen)


def test_many_retags_are_looked_up_once(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.append(some("k:1", count=30))
    seen, follower = Seen(), store.follower("f", Query.types("Other"))
    follower.catch_up(seen)
    for number in range(10):
        store.retag(Query.tag("k:1"), add=[f"n:{number}"])
    look_up, asked = store.engine.events_at, []

    def counted(positions: Sequence[int]) -> list[SequencedEvent]:
        asked.append(positions)
        return look_up(positions)

    monkeypatch.setattr(store.engine, "events_at", counted)
    assert follower.catch_up(seen) == 40
    assert asked == [list(range(1, 31))] * 10


def test_a_retag_while_a_follower_looks_is_not_mixed_up_with_the_one_before(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When event 1 is looked up it has k:3 already; the retag that gave it k:2 did not concern k:3."""
    store.append(some("k:1"))
    seen, follower = Seen(), store.follower("f", Query.tag("k:3"))
    follower.catch_up(seen)
    store.retag([1], replace={"k": ["2"]})
    look_up = store.engine.events_at

    def retagged_first(positions: Sequence[int]) -> list[SequencedEvent]:
        if store.head() == 2:
            store.retag([1], replace={"k": ["3"]})
        return look_up(positions)

    monkeypatch.setattr(store.engine, "events_at", retagged_first)
    assert follower.catch_up(seen) == 2
    with pytest.raises(FollowerFailed, match="the retag at 3 changed"):
        follower.catch_up(seen)


def test_an_outbox_and_an_automation_go_on_after_a_retag(store: EventStore) -> None:
    store.append(some("k:1", count=3))
    published: list[int] = []
    decided: list[int] = []
    outbox = store.outbox(
        "t", Query.tag("k:1"), "p", lambda events: published.extend(e.position for e in events)
    )
    automation = store.automation("a", Query.tag("k:1"), lambda event: decided.append(event.position))
    outbox.catch_up(), automation.catch_up()
    store.retag([2], replace={"k": ["2"]})
    store.append(some("k:1"))
    assert (outbox.catch_up(), automation.catch_up()) == (5, 5)
    assert published == decided == [1, 2, 3, 5]


def test_an_outbox_and_an_automation_notice_a_retag_if_asked_to(store: EventStore) -> None:
    store.append(some("k:1"))
    outbox = store.outbox("t", Query.tag("k:1"), "p", lambda events: None, on_retag=None)
    told: list[int] = []
    automation = store.automation(
        "a", Query.tag("k:1"), lambda event: None, on_retag=lambda retag, tx: told.append(retag.position)
    )
    outbox.catch_up(), automation.catch_up()
    store.retag([1], replace={"k": ["2"]})
    with pytest.raises(FollowerFailed, match="the retag at 2 changed"):
        outbox.catch_up()
    automation.catch_up()
    assert told == [2]


def test_what_it_began_after_is_not_what_it_delivered(store: EventStore) -> None:
    store.append(some("k:1", count=4))
    seen, follower = Seen(), store.follower("f", Query.tag("k:1"), after=2)
    follower.catch_up(seen)
    store.retag([1, 2], replace={"k": ["2"]})
    follower.catch_up(seen)
    assert seen.positions == [3, 4]
    store.retag([3], replace={"k": ["2"]})
    with pytest.raises(FollowerFailed, match="the retag at 6"):
        follower.catch_up(seen)


def test_there_and_back_is_noticed_like_any_retag(store: EventStore) -> None:
    store.append(some("k:1", count=2))
    seen, follower = Seen(), store.follower("f", Query.tag("k:1"))
    follower.catch_up(seen)
    store.retag([1], replace={"k": ["2"]})
    store.retag([1], replace={"k": ["1"]})
    with pytest.raises(FollowerFailed, match="the retag at 3"):
        follower.catch_up(seen)


def test_pages_that_are_read_before_and_after_a_retag_are_no_alarm(store: EventStore) -> None:
    """The second page has the event as it is now, so nothing that was delivered has changed."""
    store.append(some("k:1", count=6))
    seen, follower = Seen(), store.follower("f", Query.tag("k:1"))
    is_retagged = False

    def handle(events: Any, tx: Any) -> None:
        seen(events, tx)

    read_page = store.engine.read_page

    def retag_after_the_first(query: Query, span: Any, size: int) -> Any:
        nonlocal is_retagged
        page = read_page(query, span, size)
        if size == 2 and not is_retagged:
            is_retagged = True
            store.retag([5], replace={"k": ["2"]})
        return page

    store.engine.read_page = retag_after_the_first  # type: ignore[method-assign]
    assert follower.catch_up(handle, batch=2) >= 6
    assert seen.positions == [1, 2, 3, 4, 6]
    assert store.follower("f", Query.tag("k:1")).catch_up(handle) == 7
    assert seen.positions == [1, 2, 3, 4, 6]


def test_a_retag_between_the_read_and_the_handler_is_noticed_next(store: EventStore) -> None:
    store.append(some("k:1", count=2))
    seen, follower = Seen(), store.follower("f", Query.tag("k:1"))
    read_page = store.engine.read_page

    def retag_what_was_read(query: Query, span: Any, size: int) -> Any:
        page = read_page(query, span, size)
        if size == 77 and store.head() == 2:
            store.retag([2], replace={"k": ["2"]})
        return page

    store.engine.read_page = retag_what_was_read  # type: ignore[method-assign]
    assert follower.catch_up(seen, batch=77) == 2
    assert seen.positions == [1, 2]
    with pytest.raises(FollowerFailed, match="the retag at 3"):
        follower.catch_up(seen)


def test_on_retag_may_put_things_right_or_begin_again(kept: Place) -> None:
    with kept.connect() as store:
        tally = Tally(kept)
        tally.make(store)
        told: list[tuple[str, int]] = []

        def on_retag(retag: SequencedEvent, tx: Any) -> int | None:
            told.append((retag.type, retag.position))
            if retag.position == 4:
                tx.execute(f"delete from {tally.table} where position = 2")
                return None
            tx.execute(f"delete from {tally.table}")
            return 0

        follower = store.follower("f", Query.tag("k:1"), lease=0.1)
        store.append(some("k:1", count=3))
        follower.catch_up(tally)
        store.retag([2], replace={"k": ["2"]})
        follower.catch_up(tally, on_retag=on_retag)
        assert tally.positions(store) == [1, 3]
        store.retag([1, 3], replace={"k": ["2"]})
        store.append([*some("k:1"), *some("k:2")])
        with running(follower, tally, on_retag=on_retag):
            until(lambda: follower.status().lag == 0)
            assert tally.positions(store) == [6]
            store.append(some("k:1"))
            until(lambda: tally.positions(store) == [6, 8])
        assert told == [("$retagged", 4), ("$retagged", 5)]


def test_a_renewal_on_its_way_does_not_undo_that_it_goes_back(store: EventStore) -> None:
    store.append(some("k:1", count=3))
    seen, follower = Seen(), store.follower("f", Query.tag("k:1"))
    follower.catch_up(seen)
    store.retag([2], replace={"k": ["2"]})
    read_page, on_their_way, checkpoints = store.engine.read_page, [], []

    def begin_again(retag: SequencedEvent, tx: Any) -> int:
        on_their_way.extend((lease, lease.use) for lease in store.leases._held)
        return 0

    def renew_first(query: Query, span: Any, size: int) -> Any:
        if size == 77 and on_their_way:
            store.leases._renew(on_their_way)
            on_their_way.clear()
            checkpoints.append(store.engine.followers("f")[0].position)
        return read_page(query, span, size)

    store.engine.read_page = renew_first  # type: ignore[method-assign]
    follower.catch_up(seen, batch=77, on_retag=begin_again)
    assert (seen.positions, checkpoints) == ([1, 2, 3, 1, 3], [0])


def test_an_on_retag_that_fails_stops_it_and_is_asked_again(store: EventStore) -> None:
    store.append(some("k:1"))
    follower = store.follower("f", Query.tag("k:1"))
    follower.catch_up(Seen())
    store.retag([1], replace={"k": ["2"]})

    def fail(retag: SequencedEvent, tx: Any) -> None:
        raise OSError("not now")

    with pytest.raises(FollowerFailed, match="not now"):
        follower.catch_up(Seen(), on_retag=fail)
    assert follower.status().position == 1
    assert follower.catch_up(Seen(), on_retag=lambda retag, tx: None) == 2


def test_retags_of_many_events_are_judged_with_the_tags_as_of_each(store: EventStore) -> None:
    store.append([Event("A", n, tags=["x", f"k:{n % 3}"]) for n in range(30)])
    seen, follower = Seen(), store.follower("f", Query.tag("k:1", "y"))
    follower.catch_up(seen)
    store.retag(Query.tag("k:1"), replace={"k": ["0"]})  # none had y
    store.retag(Query.tag("k:0"), add=["y"])
    assert follower.catch_up(seen) == 32
    store.retag([1], replace={"k": ["1"]})  # now the first one has both
    with pytest.raises(FollowerFailed, match="the retag at 33"):
        follower.catch_up(seen)
    assert seen.positions == []
