"""Kills a process that runs a follower and a read model at random moments, again and again, and looks at what it left.

`python tests/follower_crash.py --kills 1000` for a long run, on PostgreSQL with `--url postgresql://…`; the tests do
some. Others append and retag meanwhile, and some of the processes make the table of a second read model anew.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from follower_tables import (
    KEYS,
    LEASE_SECONDS,
    LIVE,
    QUERY,
    REBUILT,
    RETAGGED,
    Account,
    Entered,
    KeyId,
    Ledger,
    accounts,
    judge_accounts,
    judge_ledger,
)
from places import Place, new_log
from strandline import EventStore, Query
from strandline.engine.maintenance import check_log
from strandline.errors import FollowerFailed
from strandline.follow import ReadModel

PATIENCE_SECONDS = 20


def child(url: str, options: str, seed: int) -> None:
    """Follow until killed."""
    place, rng = Place(url, json.loads(options).get("log")), random.Random(seed)
    ledger, live, rebuilt = Ledger(place), accounts(place, LIVE), accounts(place, REBUILT)
    batch = rng.choice([1, 3, 20, 500])
    with place.connect() as store:
        os.write(1, b"open\n")
        follower = store.follower("ledger", QUERY, lease=LEASE_SECONDS)
        run_ledger = lambda: follower.run(ledger, batch, attempts=2, backoff=0.001)  # noqa: E731
        works: list[Callable[[], object]] = [run_ledger, lambda: live.run(store, batch)]
        if rng.random() < 0.3:
            works.append(lambda: rebuilt.run(store, batch))
            works.append(lambda: rebuild_for_ever(accounts(place, REBUILT), store, max(7, batch)))
        threads = [threading.Thread(target=ending_all, args=(work,)) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def rebuild_for_ever(model: ReadModel[Account], store: EventStore, batch: int) -> None:
    while True:
        with suppress(FollowerFailed):  # another process was quicker
            model.rebuild(store, batch)


def ending_all(work: Callable[[], object]) -> None:
    """Who ends by itself ends the process, so that it is noticed."""
    try:
        work()
    except BaseException:
        traceback.print_exc()
    os._exit(1)


class Victim:
    """Kills followers of one log that is written to meanwhile."""

    def __init__(self, place: Place, seed: int = 1) -> None:
        self.place = place
        self.rng = random.Random(seed)
        self.kills = 0
        with place.connect() as store:
            Ledger(place).make(store)

    def start_one(self) -> subprocess.Popen[bytes]:
        seed = str(self.rng.getrandbits(32))
        return subprocess.Popen(
            [sys.executable, __file__, "--seed", seed, "--child", *self.place.arguments],
            stdout=subprocess.PIPE,
        )

    def kill(self, times: int) -> None:
        """Let two runners fight while events come, and kill one after the other; at last, somebody takes over."""
        with self.writing() as store:
            before = self.position(store)
            rivals = [self.start_one(), self.start_one()]
            for _ in range(times):
                process = rivals.pop(0)
                assert process.stdout is not None
                if self.rng.random() < 0.8:
                    assert process.stdout.readline() == b"open\n", "the runner could not open the store"
                    time.sleep(self.rng.random() * 0.2)
                else:
                    time.sleep(self.rng.random() * 0.3)
                stop(process)
                self.kills += 1
                rivals.append(self.start_one())
            end = time.monotonic() + PATIENCE_SECONDS
            while self.position(store) <= before:
                assert time.monotonic() < end, "nobody keeps the read model live"
                time.sleep(0.01)
            for process in rivals:
                stop(process)

    def position(self, store: EventStore) -> int:
        """How far the read model is."""
        rows = store.engine.followers(f"model:{accounts(self.place, LIVE).table}")
        return rows[0].position if rows else 0

    @contextmanager
    def writing(self) -> Iterator[EventStore]:
        """Events are appended, and some retagged in ways that change nothing for the follower."""
        is_over = threading.Event()

        def write(store: EventStore) -> None:
            rng = random.Random(self.rng.random())
            while not is_over.wait(rng.random() * 0.004):
                tag, keys = ("wanted", KEYS) if rng.random() < 0.6 else ("other", RETAGGED)
                event = Entered(key=KeyId(rng.choice(keys)), amount=rng.randrange(100))
                store.append([event.with_tags(tag) for _ in range(rng.choice([1, 1, 5, 40]))])
                if rng.random() < 0.05:
                    store.retag(Query.tag("other"), add=[f"mark:{rng.randrange(9)}"])
                if rng.random() < 0.02:
                    moved = Query.tag("other", f"key:{rng.choice(RETAGGED)}")
                    old = store.read(moved, after=rng.randrange(store.head()), limit=1)
                    store.retag([event.position for event in old], replace={"key": [rng.choice(RETAGGED)]})

        with self.place.connect() as store:
            store.append(Entered(key=KeyId(KEYS[0]), amount=1))
            writer = threading.Thread(target=write, args=(store,))
            writer.start()
            try:
                yield store
            finally:
                is_over.set()
                writer.join()

    def judge(self) -> int:
        """What must hold after any number of kills; returns how many events were applied."""
        with self.place.connect() as store:
            applied = judge_ledger(self.place, store)
            for name in (LIVE, REBUILT):
                judge_accounts(accounts(self.place, name), store)
        assert check_log(self.place.url, **self.place.options).problems == []
        return applied


def stop(process: subprocess.Popen[bytes]) -> None:
    code = process.poll()
    process.kill()
    process.communicate()
    assert code is None, "the runner ended by itself"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--url", help="a PostgreSQL database; a new log is made there")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(*arguments.child, arguments.seed)
        return
    with tempfile.TemporaryDirectory() as folder:
        for done in range(
            0, arguments.kills, 50
        ):  # a log that grows for ever would make each judgement slower
            place = new_log(arguments.url) if arguments.url else Place(Path(folder) / f"log{done}.db")
            victim = Victim(place, arguments.seed + done)
            victim.kill(min(50, arguments.kills - done))
            applied = victim.judge()
            print(
                f"{done + victim.kills} kills, {applied} events applied: each once; the table is the fold",
                flush=True,
            )


if __name__ == "__main__":
    main()
