"""One at a time runs a follower; another takes over, and who lost its lease cannot commit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from follow.following import Seen, Tally, running, some, until
from places import Place
from strandline import EventStore, SequencedEvent, Unavailable
from strandline.testing import ManualClock


def test_a_second_runner_waits_and_takes_over_when_the_first_one_stops(place: Place) -> None:
    with place.connect() as store:
        one, other = store.follower("f"), store.follower("f")
        seen_by_one, seen_by_other = Seen(), Seen()
        with running(one, seen_by_one), running(other, seen_by_other):
            store.append(some("a"))
            until(lambda: one.status().state == "waiting" or other.status().state == "waiting")
            until(lambda: seen_by_one.positions + seen_by_other.positions == [1])
            (first, last) = (one, other) if seen_by_one.positions else (other, one)
            assert (first.status().state, last.status().state) == ("running", "waiting")
            first.stop()
            store.append(some("a"))
            until(lambda: seen_by_one.positions + seen_by_other.positions in ([1, 2], [2, 1]))
            assert [len(seen_by_one.positions), len(seen_by_other.positions)] == [1, 1]


def test_many_runners_in_threads_deliver_everything_once(kept: Place) -> None:
    with kept.connect() as store, kept.connect() as another:
        tally = Tally(kept)
        tally.make(store)

        def run(number: int) -> None:
            for _ in range(4):
                follower = (store, another)[number % 2].follower("f", lease=0.2)
                timer = threading.Timer(0.03 * (number + 1), follower.stop)
                timer.start()
                follower.run(tally, batch=3)
                timer.join()

        threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(40):
            store.append(some("a", count=2))
        for thread in threads:
            thread.join(30)
        store.follower("f").catch_up(tally)
        assert tally.positions(store) == list(range(1, 81))


RUNNER = """
import json, sys
import strandline
sys.path.insert(0, sys.argv[4])
from follow.following import Tally
from places import Place

url, options = sys.argv[1], json.loads(sys.argv[2])
place = Place(url, options.get("log"))
tally = Tally(place)
with place.connect() as store:
    follower = store.follower("f", lease=float(sys.argv[3]))
    def handle(events, tx):
        tally(events, tx)
        print(events[-1].position, flush=True)
    print("ready", flush=True)
    follower.run(handle, batch=3)
"""


def start_runner(place: Place, lease: float) -> subprocess.Popen[str]:
    tests = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    process = subprocess.Popen(
        [sys.executable, "-c", RUNNER, *place.arguments, str(lease), tests], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_another_process_takes_over_after_a_kill(kept: Place) -> None:
    with kept.connect() as store:
        tally = Tally(kept)
        tally.make(store)
        victim = start_runner(kept, 0.5)
        assert victim.stdout is not None
        store.append(some("a", count=4))
        assert victim.stdout.readline() == "3\n"
        survivor = start_runner(kept, 0.5)
        assert victim.stdout.readline() == "4\n"
        victim.kill()  # perhaps before its last transaction is committed
        victim.communicate()
        store.append(some("a"))
        until(lambda: store.follower("f").status().position == 5)
        survivor.terminate()
        survivor.communicate()
        assert tally.positions(store) == [1, 2, 3, 4, 5]


def test_two_processes_fight_and_deliver_everything_once(kept: Place) -> None:
    with kept.connect() as store:
        tally = Tally(kept)
        tally.make(store)
        rivals = [start_runner(kept, 0.3) for _ in range(2)]
        for number in range(60):
            store.append(some("a", count=2))
            if number % 20 == 10:  # asleep longer than its lease is good for: then the other one takes over
                rival = rivals[number // 20 % 2]
                rival.send_signal(signal.SIGSTOP)
                threading.Event().wait(0.4)
                rival.send_signal(signal.SIGCONT)
        until(lambda: store.follower("f").status().lag == 0)
        for rival in rivals:
            rival.terminate()
            rival.communicate()
        assert tally.positions(store) == list(range(1, 121))


@pytest.mark.parametrize("is_paused", [False, True])
def test_who_slept_beyond_its_lease_cannot_commit(place: Place, is_paused: bool) -> None:
    clock = ManualClock()
    with place.connect(clock=clock) as store, place_again(place, store, clock) as other:
        store.append(some("a"))
        begun, go_on = threading.Event(), threading.Event()
        calls = []

        def sleepy(events: Sequence[SequencedEvent], tx: Any) -> None:
            calls.append("sleepy")
            begun.set()
            assert go_on.wait(20)

        follower = store.follower("f", lease=60)
        with running(follower, sleepy, in_transaction=False):
            assert begun.wait(20)
            store.leases._held.clear()  # nobody renews its lease, as in a process that sleeps
            clock.move(61)
            store.append(some("a", count=2))
            seen = Seen()
            assert other.follower("f").catch_up(seen) == 3
            if is_paused:
                other.follower("f").pause()
            (before,) = store.engine.followers("f")
            go_on.set()
            if is_paused:
                until(lambda: follower._run is not None and follower._run.is_waiting)
                assert store.engine.followers("f") == [before], "its checkpoint went back"
            else:  # it takes the lease again, and has nothing to do
                until(lambda: store.engine.followers("f")[0].epoch > before.epoch or len(calls) > 1)
                assert store.engine.followers("f")[0].position == 3, "its checkpoint went back"
        assert (calls, seen.positions) == (["sleepy"], [1, 2, 3])


class place_again:  # noqa: N801
    """A second store for the same log; in memory there is only the one."""

    def __init__(self, place: Place, store: EventStore, clock: ManualClock) -> None:
        self._store = store if place.url == "memory:" else place.connect(clock=clock)
        self._is_own = self._store is not store

    def __enter__(self) -> EventStore:
        return self._store

    def __exit__(self, *_: object) -> None:
        if self._is_own:
            self._store.close()


def test_who_lost_its_lease_between_read_and_transaction_does_not_call_the_handler(place: Place) -> None:
    clock = ManualClock()
    with place.connect(clock=clock) as store, place_again(place, store, clock) as other:
        store.append(some("a", count=2))
        read_page, reads, seen, late = store.engine.read_page, [], Seen(), Seen()

        def lose_lease(query: Any, span: Any, size: int) -> Any:
            page = read_page(query, span, size)
            if size == 77 and not reads:
                reads.append(size)
                store.leases._held.clear()
                clock.move(61)
                other.follower("f").catch_up(seen)
            return page

        store.engine.read_page = lose_lease  # type: ignore[method-assign]
        assert store.follower("f", lease=60).catch_up(late, batch=77) == 2
        assert (seen.positions, late.positions, reads) == ([1, 2], [], [77])


def test_a_lease_is_renewed_while_its_holder_waits_or_works(place: Place) -> None:
    with place.connect() as store:
        begun, go_on = threading.Event(), threading.Event()

        def slow(events: Sequence[SequencedEvent], tx: Any) -> None:
            begun.set()
            assert go_on.wait(20)

        follower = store.follower("f", lease=0.3)
        with running(follower, slow, in_transaction=False):
            until(lambda: follower.status().state == "running")
            (first,) = store.engine.followers("f")
            until(lambda: store.engine.followers("f")[0].renewed_at > first.renewed_at + 600_000)
            store.append(some("a"))
            assert begun.wait(20)
            (second,) = store.engine.followers("f")
            until(lambda: store.engine.followers("f")[0].renewed_at > second.renewed_at + 600_000)
            assert (follower.status().state, store.engine.followers("f")[0].epoch) == ("running", 1)
            go_on.set()


@pytest.mark.parametrize("seconds", [-86_400, 86_400])
def test_a_clock_that_jumps_loses_and_repeats_nothing(place: Place, seconds: float) -> None:
    clock = ManualClock()
    with place.connect(clock=clock) as store, place_again(place, store, clock) as other:
        seen = Seen()
        with running(store.follower("f", lease=0.5), seen), running(other.follower("f", lease=0.5), seen):
            for number in range(1, 9):
                store.append(some("a"))
                until(lambda n=number: len(seen.positions) == n)  # type: ignore[misc]
                clock.move(seconds if number % 2 else -seconds)
        assert seen.positions == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_lease_from_the_future_is_none(place: Place) -> None:
    """The clock was wrong when its holder renewed it last, and then the holder was killed."""
    clock = ManualClock()
    with place.connect(clock=clock) as store:
        store.append(some("a"))
        store.follower("f").catch_up(Seen())
        tx = store.engine.transaction()
        tx.begin()
        row = tx.find("f")
        assert row is not None
        tx.save(type(row)(**{**as_dict(row), "owner": "gone", "renewed_at": row.renewed_at + 10**12}))
        tx.commit()
        tx.end()
        store.append(some("a"))
        seen = Seen()
        assert store.follower("f").catch_up(seen) == 2
        assert seen.positions == [2]


def as_dict(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__struct_fields__}


def test_a_database_that_fails_for_a_while_is_tried_again(kept: Place) -> None:
    with kept.connect() as store:
        tally = Tally(kept)
        tally.make(store)
        store.append(some("a", count=6))
        kind = type(store.engine.transaction())
        begin, commit, calls = kind.begin, kind.commit, []

        def begin_now_and_then(tx: Any) -> None:
            calls.append("begin")
            if len(calls) % 5 == 2:
                raise Unavailable("not now")
            begin(tx)

        def commit_and_lose_the_answer(tx: Any) -> None:
            commit(tx)
            calls.append("commit")
            if len(calls) % 7 == 3:
                raise Unavailable("who knows", written=None)

        kind.begin, kind.commit = begin_now_and_then, commit_and_lose_the_answer
        try:
            assert store.follower("f").catch_up(tally, batch=2, backoff=0.001, attempts=50) == 6
        finally:
            kind.begin, kind.commit = begin, commit
        assert tally.positions(store) == [1, 2, 3, 4, 5, 6]
        assert store.follower("f").dead_letters() == []


def test_a_database_that_fails_for_good_ends_the_run(kept: Place) -> None:
    with kept.connect() as store:
        kind = type(store.engine.transaction())
        begin = kind.begin

        def fail(tx: Any) -> None:
            raise Unavailable("gone")

        kind.begin = fail
        try:
            with pytest.raises(Unavailable, match="gone"):
                store.follower("f").run(Seen(), attempts=3, backoff=0)
        finally:
            kind.begin = begin


def test_the_owner_says_which_process_it_is(kept: Place) -> None:
    with kept.connect() as store:
        victim = start_runner(kept, 5)
        until(lambda: store.follower("f").status().state == "running")
        assert f":{victim.pid}:" in store.follower("f").status().owner
        victim.kill()
        victim.communicate()
