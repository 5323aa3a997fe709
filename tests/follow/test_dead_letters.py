"""Events that a handler cannot take: tried again, put aside, looked at, tried once more."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from follow.following import Seen, Tally, running, some, until
from places import Place
from strandline import EventStore, FollowerFailed, NotFound, Query, SequencedEvent
from strandline.follow.logger import LOGGER
from strandline.testing import ManualClock


class Picky(Seen):
    """Cannot take some events."""

    def __init__(self, *poison: int) -> None:
        super().__init__()
        self.poison = set(poison)
        self.calls: list[list[int]] = []

    def __call__(self, events: Sequence[SequencedEvent], tx: Any) -> None:
        self.calls.append([event.position for event in events])
        for event in events:
            if event.position in self.poison:
                raise ValueError(f"cannot take {event.position}")
        super().__call__(events, tx)


def test_a_poison_event_is_put_aside_and_the_others_are_delivered_in_order(place: Place) -> None:
    clock = ManualClock()
    with place.connect(clock=clock) as store:
        store.append(some("a", count=7))
        handle, follower = Picky(3, 6), store.follower("f")
        assert follower.catch_up(handle, batch=5, attempts=3, backoff=0) == 7
        assert handle.positions == [1, 2, 4, 5, 7]
        one_by_one = [[1], [2], [3], [3], [3], [4], [5], [6, 7], [6], [6], [6], [7]]
        assert handle.calls == [[1, 2, 3, 4, 5], *one_by_one]
        first, second = follower.dead_letters()
        assert (first.position, first.error, first.attempts) == (3, "ValueError: cannot take 3", 3)
        assert "in __call__" in first.traceback
        assert (first.time, second.position) == (clock.now, 6)
        assert follower.status().dead_letters == 2
        assert store.follower("g").dead_letters() == []


def test_what_fails_now_and_then_is_tried_again_until_it_does_not(kept: Place) -> None:
    with kept.connect() as store:
        tally = Tally(kept)
        tally.make(store)
        store.append(some("a", count=20))
        calls = []

        def moody(events: Sequence[SequencedEvent], tx: Any) -> None:
            tally(events, tx)
            calls.append(len(events))
            if len(calls) % 3:
                raise OSError("not now")

        follower = store.follower("f")
        follower.catch_up(moody, batch=4, attempts=4, backoff=0.001)
        assert tally.positions(store) == list(range(1, 21))
        assert follower.dead_letters() == []


def test_a_failed_statement_of_the_handler_is_a_failure_even_if_it_is_swallowed(postgres: Place) -> None:
    with postgres.connect() as store:
        store.append(some("a"))

        def swallow(events: Any, tx: Any) -> None:
            try:
                tx.execute("select 1/0")
            except Exception:
                return

        with pytest.raises(Exception, match="failed, and with it the transaction"):
            store.follower("f").catch_up(swallow)
        assert store.follower("f").status().position == 0


def test_a_poison_event_stops_it_if_that_is_wanted(store: EventStore) -> None:
    store.append(some("a", count=4))
    handle, follower = Picky(3), store.follower("f")
    with pytest.raises(FollowerFailed, match=r"failed 2 times at event 3 \(Happened\)") as failure:
        follower.run(handle, attempts=2, backoff=0, on_failure="stop")
    assert isinstance(failure.value.__cause__, ValueError)
    status = follower.status()
    assert (status.state, status.position, status.dead_letters) == ("failed", 2, 0)
    assert "cannot take 3" in status.error
    handle.poison.clear()
    assert follower.catch_up(handle) == 4
    assert handle.positions == [1, 2, 3, 4]
    assert (follower.status().state, follower.status().error) == ("idle", "")


def test_a_letter_can_be_replayed_with_the_handler_of_the_run_or_another(kept: Place) -> None:
    with kept.connect() as store:
        tally = Tally(kept)
        tally.make(store)
        store.append(some("a", count=3))
        is_broken = True

        def handle(events: Sequence[SequencedEvent], tx: Any) -> None:
            tally(events, tx)
            if is_broken and {1, 3} & {event.position for event in events}:
                raise ValueError("broken")

        follower = store.follower("f")
        follower.catch_up(handle, attempts=1)
        assert tally.positions(store) == [2]
        with pytest.raises(FollowerFailed, match="failed again at event 1: ValueError: broken"):
            follower.replay(1)
        assert [(letter.position, letter.attempts) for letter in follower.dead_letters()] == [(1, 2), (3, 1)]
        is_broken = False
        follower.replay(1)
        store.follower("f").replay(3, tally)
        assert tally.positions(store) == [2, 1, 3]
        assert follower.dead_letters() == []
        with pytest.raises(NotFound):
            follower.replay(1)
        assert tally.positions(store) == [2, 1, 3]


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "x" * 200_000, "{}%s", ""])
def test_whatever_an_error_says_can_be_kept(
    store: EventStore, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LOGGER, "disabled", True)  # pytest-xdist cannot send a log that is not UTF-8
    store.append(some("a"))

    def fail(events: Any, tx: Any) -> None:
        raise ValueError(text)

    follower = store.follower("f")
    with pytest.raises(FollowerFailed):
        follower.catch_up(fail, attempts=1, on_failure="stop")
    assert follower.status().state == "failed"
    follower.catch_up(fail, attempts=1)
    (letter,) = follower.dead_letters()
    assert letter.error.startswith("ValueError: ")
    with pytest.raises(FollowerFailed):
        follower.replay(1)


def test_a_letter_can_be_discarded(store: EventStore) -> None:
    store.append(some("a", count=2))
    follower = store.follower("f")
    follower.catch_up(Picky(1, 2), attempts=1)
    follower.discard(1)
    assert [letter.position for letter in follower.dead_letters()] == [2]
    follower.forget()
    assert follower.dead_letters() == []


def test_letters_outside_the_transaction(store: EventStore) -> None:
    store.append(some("a", count=3))
    handle, follower = Picky(2), store.follower("f")
    follower.catch_up(handle, attempts=2, backoff=0, in_transaction=False)
    assert (handle.positions, [letter.position for letter in follower.dead_letters()]) == ([1, 3], [2])
    with pytest.raises(FollowerFailed):
        follower.replay(2)
    handle.poison.clear()
    follower.replay(2)
    assert (handle.positions, follower.dead_letters()) == ([1, 3, 2], [])


def test_it_can_be_stopped_while_it_waits_to_try_again(store: EventStore) -> None:
    store.append(some("a"))
    handle, follower = Picky(1), store.follower("f")
    with running(follower, handle, backoff=1_000) as outcome:
        until(lambda: handle.calls)
        follower.stop()
        until(lambda: outcome)
    assert outcome == [0]
    assert follower.dead_letters() == []


def test_a_slow_handler_keeps_no_event_from_those_that_come_meanwhile(store: EventStore) -> None:
    begun, seen = threading.Event(), Seen()

    def slow(events: Sequence[SequencedEvent], tx: Any) -> None:
        begun.set()
        threading.Event().wait(0.02)
        seen(events, tx)

    with running(store.follower("f", Query.tag("a")), slow, batch=7):
        for _ in range(40):
            store.append([*some("a"), *some("b")])
        assert begun.wait(20)
        until(lambda: len(seen.positions) == 40)
    assert seen.positions == list(range(1, 81, 2))
