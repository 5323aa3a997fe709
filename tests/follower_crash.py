"""Kills a process that runs a follower at random moments, again and again, and looks at what it left.

`python tests/follower_crash.py --kills 1000` for a long run, on PostgreSQL with `--url postgresql://…`; the tests do
some. Others append and retag meanwhile.
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from places import Place, new_log
from strandline import Event, EventStore, Query, SequencedEvent
from strandline.engine.maintenance import check_log

LEASE_SECONDS = 0.15
KEYS = 4
QUERY = Query.tag("wanted")
POISON = 97  # every so many events one that no handler can take


class Ledger:
    """A table that says which event was applied in which order, and the sum per key."""

    def __init__(self, place: Place) -> None:
        prefix = f"public.{place.log}_" if place.is_in_database else ""
        self._entries, self._sums = f"{prefix}entry", f"{prefix}sum"
        self._mark = "%s" if place.is_in_database else "?"

    def make(self, store: EventStore) -> None:
        number = "bigserial" if "public" in self._entries else "integer"
        tx = store.engine.transaction()
        tx.begin()
        tx.execute(f"create table {self._entries} (number {number} primary key, position bigint)")
        tx.execute(f"create table {self._sums} (key text primary key, amount bigint not null)")
        tx.commit()
        tx.end()

    def __call__(self, events: Sequence[SequencedEvent], tx: Any) -> None:
        for event in events:
            data = event.json()
            tx.execute(f"insert into {self._entries} (position) values ({self._mark})", (event.position,))
            tx.execute(
                f"insert into {self._sums} (key, amount) values ({self._mark}, {self._mark})"
                f" on conflict (key) do update set amount = {self._sums}.amount + excluded.amount",
                (data["key"], data["amount"]),
            )
            if event.position % POISON == 0:
                raise ValueError("poison")

    def content(self, store: EventStore) -> tuple[list[int], dict[str, int]]:
        tx = store.engine.transaction()
        tx.begin()
        try:
            entries = tx.execute(f"select position from {self._entries} order by number")
            return [position for (position,) in entries], dict(
                tx.execute(f"select key, amount from {self._sums}")
            )
        finally:
            tx.end()


def child(url: str, options: str, seed: int) -> None:
    """Follow until killed."""
    place = Place(url, json.loads(options).get("log"))
    ledger, batch = Ledger(place), random.Random(seed).choice([1, 3, 20, 500])
    with place.connect() as store:
        os.write(1, b"open\n")
        follower = store.follower("ledger", QUERY, lease=LEASE_SECONDS)
        follower.run(ledger, batch, attempts=2, backoff=0.001)


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
        """Let two runners fight while events come, and kill one after the other."""
        with self.writing():
            rivals = [self.start_one(), self.start_one()]
            for _ in range(times):
                process = rivals.pop(0)
                assert process.stdout is not None
                if self.rng.random() < 0.8:
                    assert process.stdout.readline() == b"open\n", "the runner could not open the store"
                    time.sleep(self.rng.random() * 0.2)
                else:
                    time.sleep(self.rng.random() * 0.3)
                process.kill()
                process.communicate()
                self.kills += 1
                rivals.append(self.start_one())
            for process in rivals:
                process.kill()
                process.communicate()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Events are appended, and some retagged in ways that change nothing for the follower."""
        is_over = threading.Event()

        def write(store: EventStore) -> None:
            rng = random.Random(self.rng.random())
            while not is_over.wait(rng.random() * 0.004):
                tags = ["wanted"] if rng.random() < 0.6 else ["other"]
                data = {"key": f"k{rng.randrange(KEYS)}", "amount": rng.randrange(100)}
                store.append([Event("Entered", data, tags=tags) for _ in range(rng.choice([1, 1, 5, 40]))])
                if rng.random() < 0.05:
                    store.retag(Query.tag("other"), add=[f"mark:{rng.randrange(9)}"])

        with self.place.connect() as store:
            writer = threading.Thread(target=write, args=(store,))
            writer.start()
            try:
                yield
            finally:
                is_over.set()
                writer.join()

    def judge(self) -> int:
        """What must hold after any number of kills; returns how many events were applied."""
        ledger = Ledger(self.place)
        with self.place.connect() as store:
            follower = store.follower("ledger", QUERY, lease=LEASE_SECONDS)
            follower.catch_up(ledger, attempts=2, backoff=0.001)
            applied, sums = ledger.content(store)
            letters = [letter.position for letter in follower.dead_letters()]
            expected: dict[str, int] = {}
            wanted = list(store.read(QUERY))
            for event in wanted:
                if event.position % POISON:
                    data = event.json()
                    expected[data["key"]] = expected.get(data["key"], 0) + data["amount"]
            poison = [event.position for event in wanted if event.position % POISON == 0]
            assert letters == poison, "a poison event is lost, or another one is taken for poison"
            healthy = [event.position for event in wanted if event.position % POISON]
            assert applied == healthy, "an event is lost, repeated or out of order"
            assert sums == expected
            assert follower.status().lag == 0
            assert check_log(self.place.url, **self.place.options).problems == []
            return len(applied)


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
            print(f"{done + victim.kills} kills, {victim.judge()} events applied: each once", flush=True)


if __name__ == "__main__":
    main()
