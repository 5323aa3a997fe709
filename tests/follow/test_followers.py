"""A follower delivers every matching event once and in order, and remembers how far it is."""

from __future__ import annotations

import threading
from datetime import UTC
from pathlib import Path
from typing import Any

import msgspec
import pytest

import strandline
from follow.following import Seen, Tally, running, some, until
from places import Place
from strandline import (
    Event,
    EventStore,
    FollowerFailed,
    InvalidInput,
    InvalidQuery,
    NotFound,
    Query,
    QueryItem,
    SequencedEvent,
    StoreClosed,
)


def test_it_delivers_every_matching_event_in_order_and_goes_on_where_it_was(store: EventStore) -> None:
    for number in range(23):
        store.append(some("a" if number % 2 else "b"))
    seen, follower = Seen(), store.follower("odd", Query.tag("a"))
    assert follower.catch_up(seen, batch=4) == 23
    assert seen.batches == [[2, 4, 6, 8], [10, 12, 14, 16], [18, 20, 22]]
    store.append(some("a", count=2))
    again = store.follower("odd", Query.tag("a"), after=3)
    assert again.catch_up(seen) == 25
    assert seen.batches[3:] == [[24, 25]]
    assert follower.catch_up(seen) == 25
    assert seen.positions == [*range(2, 24, 2), 24, 25]


def test_a_new_one_begins_where_it_is_told_to(store: EventStore) -> None:
    store.append(some("a", count=5))
    seen = Seen()
    store.follower("late", after=3).catch_up(seen)
    assert seen.positions == [4, 5]
    with pytest.raises(InvalidInput, match="the head of this log is 5"):
        store.follower("too late", after=6).catch_up(seen)


def test_followers_do_not_know_of_each_other(store: EventStore) -> None:
    store.append(some("a", count=3))
    one, other = Seen(), Seen()
    store.follower("one").catch_up(one)
    store.follower("other", Query.tag("a"), after=1).catch_up(other)
    assert (one.positions, other.positions) == ([1, 2, 3], [2, 3])
    assert [(status.name, status.position) for status in store.followers()] == [("one", 3), ("other", 3)]


def test_it_waits_for_more_until_it_is_stopped(store: EventStore) -> None:
    seen, follower = Seen(), store.follower("live", Query.tag("a"))
    with running(follower, seen) as outcome:
        for number in range(1, 6):
            store.append(some("a"))
            until(lambda n=number: len(seen.positions) == n)  # type: ignore[misc]
        store.append(some("b"))
        follower.stop()
        until(lambda: outcome)
    assert seen.positions == [1, 2, 3, 4, 5]
    assert outcome == [follower.status().position]
    with running(follower, seen):
        store.append(some("a"))
        until(lambda: seen.positions[-1] == 7)


def test_a_stop_that_comes_before_the_run_ends_it(store: EventStore) -> None:
    store.append(some("a"))
    seen, follower = Seen(), store.follower("f")
    follower.stop()
    assert follower.run(seen) == 0
    assert follower.catch_up(seen) == 1
    assert seen.positions == [1]


def test_an_interrupt_undoes_what_was_begun_and_lets_others_go_on(kept: Place) -> None:
    with kept.connect() as store:
        tally = Tally(kept)
        tally.make(store)
        store.append(some("a", count=3))

        def interrupted(events: Any, tx: Any) -> None:
            tally(events, tx)
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            store.follower("f").run(interrupted)
        assert (tally.positions(store), store.follower("f").status().state) == ([], "idle")
        store.follower("f").catch_up(tally)
        assert tally.positions(store) == [1, 2, 3]


def test_closing_the_store_ends_the_run_after_what_it_has_begun(place: Place) -> None:
    store = place.connect()
    store.append(some("a"))
    began, go_on, seen = threading.Event(), threading.Event(), Seen()

    def slow(events: Any, tx: Any) -> None:
        began.set()
        assert go_on.wait(20)
        seen(events, tx)

    with running(store.follower("f"), slow) as outcome:
        assert began.wait(20)
        closing = threading.Thread(target=store.close)
        closing.start()
        go_on.set()
        closing.join(20)
        until(lambda: outcome)
    assert outcome == [1]
    assert seen.positions == [1]
    with pytest.raises(StoreClosed):
        store.follower("f")
    if place.url != "memory:":
        with place.connect() as again:
            assert again.follower("f").status().position == 1
            assert again.follower("f").status().state == "idle"


def test_the_checkpoint_moves_with_the_head_when_nothing_matches(store: EventStore) -> None:
    store.append(some("b", count=3))
    follower = store.follower("f", Query.tag("a"))
    assert follower.catch_up(Seen()) == 3
    assert (follower.status().position, follower.status().lag) == (3, 0)
    with running(follower, Seen()):
        store.append(some("b", count=4))
        until(lambda: follower.status().position == 7, "the checkpoint has moved")


def test_nothing_is_written_while_nothing_happens(kept: Place) -> None:
    with kept.connect() as store:
        store.append(some("b"))
        follower = store.follower("f", Query.tag("a"), lease=3_000)
        with running(follower, Seen()):
            until(lambda: follower.status().position == 1)
            before = store.engine.followers("f")
            writes = []
            begin = type(store.engine.transaction()).begin
            type(store.engine.transaction()).begin = lambda tx: (writes.append(tx), begin(tx))[1]
            try:
                threading.Event().wait(1.6)
            finally:
                type(store.engine.transaction()).begin = begin
            assert (writes, store.engine.followers("f")) == ([], before)


def test_another_query_under_the_same_name_is_noticed(store: EventStore) -> None:
    store.append([*some("a"), *some("b")])
    store.follower("f", Query.tag("a")).catch_up(Seen())
    other, seen = store.follower("f", Query.tag("b")), Seen()
    with pytest.raises(FollowerFailed, match="another query") as refusal:
        other.catch_up(seen)
    assert "reset" in refusal.value.hint
    other.reset(0)
    other.catch_up(seen)
    assert seen.positions == [2]


def test_an_equal_query_goes_on_in_whatever_order_its_items_are(store: EventStore) -> None:
    store.append([*some("a"), *some("b")])
    one, other = QueryItem(tags=["a"]), QueryItem(tags=["b"])
    store.follower("f", Query.of(one, other)).catch_up(Seen())
    store.append(some("b"))
    seen = Seen()
    store.follower("f", Query.of(other, one)).catch_up(seen)
    assert seen.positions == [3]


def test_a_query_may_have_a_callable(store: EventStore) -> None:
    store.append([Event("A", number) for number in range(1, 8)])
    query = Query.of(QueryItem(where=lambda event: event.json() % 3 == 0))
    seen = Seen()
    assert store.follower("f", query).catch_up(seen, batch=1) == 7
    assert seen.positions == [3, 6]
    store.follower("f", query).catch_up(seen)
    assert seen.positions == [3, 6]


def where_one(event: SequencedEvent) -> bool:
    return event.json() == 1


def where_two(event: SequencedEvent) -> bool:
    return event.json() == 2


@pytest.mark.parametrize(
    "other",
    [
        Query.of(QueryItem(["B"], where=where_one)),
        Query.of(QueryItem(["A"], ["x"], where=where_one)),
        Query.of(QueryItem(["A"])),
        Query.of(QueryItem(["A"], where={"a": 1})),
        Query.of(QueryItem(["A"], where=where_one), QueryItem(["C"])),
    ],
)
def test_what_is_asked_beside_a_function_is_remembered(store: EventStore, other: Query) -> None:
    store.append([Event("A", 1), Event("B", 2)])
    query = Query.of(QueryItem(["A"], where=where_one))
    store.follower("f", query).catch_up(Seen())
    with pytest.raises(FollowerFailed, match="has followed another query"):
        store.follower("f", other).catch_up(Seen())
    store.follower("f", Query.of(QueryItem(["A"], where=where_two))).catch_up(Seen())
    assert not store.find_follower("f").kept.is_query_known
    store.follower("f", other).reset(0)
    seen = Seen()
    store.follower("f", other).catch_up(seen)
    with pytest.raises(FollowerFailed, match="has followed another query"):
        store.follower("f", query).catch_up(seen)


def test_a_follower_with_a_function_of_an_older_version_goes_on(store: EventStore) -> None:
    store.append([Event("A", 1), Event("A", 1)])
    follower = store.follower("f", Query.of(QueryItem(["A"], where=where_one)))
    follower.catch_up(Seen())
    follower._change(lambda row: msgspec.structs.replace(row, query="", position=1))  # as it was kept before
    assert not store.find_follower("f").kept.is_query_known
    seen = Seen()
    follower.catch_up(seen)
    assert seen.positions == [2]


def test_a_log_that_was_restored_to_the_past_is_noticed(tmp_path: Path) -> None:
    from strandline.engine.maintenance import backup_log

    with strandline.connect(tmp_path / "log.db") as store:
        store.append(some("a", count=3))
        store.follower("f").catch_up(Seen())
        store.append(some("a", count=3))
        store.follower("f").catch_up(Seen())
    backup_log(tmp_path / "log.db", tmp_path / "old.db")
    with strandline.connect(tmp_path / "old.db") as store:
        database = store.engine._connection.database  # type: ignore[attr-defined]
        database.execute("delete from event where position > 4; delete from posting where position > 4")
    with strandline.connect(tmp_path / "old.db") as store:
        with pytest.raises(FollowerFailed, match="at position 6, but the head of this log is 4") as refusal:
            store.follower("f").catch_up(Seen())
        assert "reset(0)" in refusal.value.hint
        seen = Seen()
        store.follower("f").reset(0)
        store.follower("f").catch_up(seen)
        assert seen.positions == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "options",
    [
        {"batch": 0},
        {"batch": True},
        {"attempts": 0},
        {"until": -1},
        {"backoff": -1},
        {"backoff": "soon"},
        {"on_failure": "panic"},
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with strandline.connect("memory:") as store:
        follower = store.follower("f")
        with pytest.raises(InvalidInput):
            follower.run(Seen(), **options)
        assert follower.catch_up(Seen()) == 0


def test_names_queries_and_leases_are_checked() -> None:
    with strandline.connect("memory:") as store:
        for name in ("", "$own", "x" * 257, 7, "a\nb"):
            with pytest.raises(InvalidInput):
                store.follower(name)  # type: ignore[arg-type]
        with pytest.raises(InvalidQuery):
            store.follower("f", "a")  # type: ignore[arg-type]
        for lease in (0, -1, "long"):
            with pytest.raises(InvalidInput):
                store.follower("f", lease=lease)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput):
            store.follower("f", after=-1)
        with pytest.raises(InvalidInput):
            store.follower("f").run("handle")  # type: ignore[arg-type]


def test_an_async_handler_needs_an_async_store() -> None:
    async def handle(events: Any, tx: Any) -> None:
        """Nobody awaits it."""

    with strandline.connect("memory:") as store:
        store.append(some("a"))
        for wrong in (handle, lambda events, tx: handle(list(events), tx)):
            with pytest.raises(InvalidInput) as refusal:
                store.follower("f").catch_up(wrong)
            assert "connect_async" in refusal.value.hint
        assert store.follower("f").status().position == 0


def test_one_object_runs_once_at_a_time(store: EventStore) -> None:
    follower = store.follower("f")
    with running(follower, Seen()):
        until(lambda: follower.status().state == "running")
        with pytest.raises(InvalidInput, match="runs already"):
            follower.run(Seen())


def test_the_position_of_a_dead_letter_is_looked_for(store: EventStore) -> None:
    store.append(some("a"))
    follower = store.follower("f")
    for ask in (follower.discard, lambda position: follower.replay(position, Seen())):
        with pytest.raises(NotFound):
            ask(1)
    with pytest.raises(NotFound):
        follower.replay(9, Seen())
    with pytest.raises(InvalidInput, match="no handler"):
        follower.replay(1)


def test_times_are_utc(store: EventStore) -> None:
    store.append(some("a"))

    def fail(events: Any, tx: Any) -> None:
        raise OSError("no")

    store.follower("f").catch_up(fail, attempts=1)
    (letter,) = store.follower("f").dead_letters()
    assert letter.time.tzinfo is UTC
