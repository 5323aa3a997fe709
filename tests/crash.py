"""Kills a writing process at random moments, again and again, and looks at what it left.

`python tests/crash.py --kills 1000` for a long run, on PostgreSQL with `--url postgresql://…`; the
tests do some.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from uuid import uuid4

import psycopg

import strandline
from places import Place, new_log
from strandline import AppendConditionFailed, AppendRequest, Event, EventStore, Query
from strandline.engine.maintenance import check_log
from strandline.testing import violations
from tiny_segments import make_segments_tiny

WRITERS = 3
# Mostly large appends: the longer a commit writes, the more kills meet one halfway.
SIZES = (1, 2, 50, 300, 300)
PADDING = "x" * 2_000
KEYS = 5


def write_for_ever(store: EventStore, writer: int, rng: random.Random) -> None:
    """Append groups of events, of which all or none must survive; tell each that is acknowledged."""
    while True:
        group = str(rng.getrandbits(64))
        size = rng.choice(SIZES)
        events = [
            Event(
                "Written",
                {"group": group, "size": size, "n": n, "padding": PADDING},
                tags=[f"k:{rng.randrange(KEYS)}", "w"],
            )
            for n in range(size)
        ]
        chance = rng.random()
        try:
            if chance < 0.1:
                store.retag(Query.tag(f"k:{rng.randrange(KEYS)}"), replace={"k": [str(rng.randrange(KEYS))]})
                continue
            if chance < 0.3:
                results = store.append_many([AppendRequest(events), AppendRequest(Event("Alone", {}))])
                assert not isinstance(results[0], Exception)
                result = results[0]
            else:
                result = store.append(
                    events, store.read(Query.tag(f"k:{rng.randrange(KEYS)}"), limit=1).condition
                )
        except AppendConditionFailed:
            continue
        told = json.dumps([group, result.first, result.last])
        os.write(1, f"{told}\n".encode())


def child(url: str, options: str, seed: int) -> None:
    if seed % 2:
        make_segments_tiny()
    store = strandline.connect(url, **json.loads(options))
    os.write(1, b"open\n")
    threads = [
        threading.Thread(target=write_for_ever, args=(store, writer, random.Random(f"{seed} {writer}")))
        for writer in range(WRITERS)
    ]
    for thread in threads:
        thread.start()


class Victim:
    """Kills writers of one log, and keeps what was acknowledged."""

    def __init__(self, place: Place, seed: int = 1) -> None:
        self.place = place
        self.rng = random.Random(seed)
        self.acknowledged: dict[str, tuple[int, int]] = {}
        self.kills = 0
        self.name = f"victim-{uuid4().hex[:12]}"  # by which a server knows its connections

    def start_one(self) -> subprocess.Popen[bytes]:
        """Start a process that writes until it is ended."""
        seed = str(self.rng.getrandbits(32))
        url, options = self.place.arguments
        if self.place.is_in_database:
            url += f"{'&' if '?' in url else '?'}application_name={self.name}"
        return subprocess.Popen(
            [sys.executable, __file__, "--seed", seed, "--child", url, options], stdout=subprocess.PIPE
        )

    def kill_one(self) -> None:
        """Start a writer and kill it: usually while it writes, sometimes while it starts."""
        process = self.start_one()
        assert process.stdout is not None
        if self.rng.random() < 0.8:
            assert process.stdout.readline() == b"open\n", "the writer could not open the store"
            first = process.stdout.readline() if self.kills % 2 else b""  # however slow the machine is
            time.sleep(self.rng.random() * (0.3 if self.place.is_in_database else 0.08))
            self.end(process, first)
        else:
            time.sleep(self.rng.random() * 0.3)
            self.end(process)

    def end(self, process: subprocess.Popen[bytes], told: bytes = b"") -> None:
        """Kill a writer and take down what it told."""
        process.kill()
        output, _ = process.communicate()
        self.kills += 1
        *lines, _torn = (told + output.removeprefix(b"open\n")).split(b"\n")
        for line in lines:
            group, first, last = json.loads(line)
            self.acknowledged[group] = (first, last)
        if self.place.is_in_database:
            await_end(str(self.place.url), self.name)

    def judge(self) -> int:
        """What must hold after any number of kills; returns the head."""
        with self.place.connect() as store:
            places: dict[str, list[int]] = {}
            sizes: dict[str, int] = {}
            for event in store.read(Query.types("Written")):
                data = event.json()
                places.setdefault(data["group"], []).append(event.position)
                sizes[data["group"]] = data["size"]
            for group, (first, last) in self.acknowledged.items():
                assert places.get(group) == list(range(first, last + 1)), "an acknowledged append is lost"
            for group, positions in places.items():
                assert len(positions) == sizes[group], "an append is half there"
                assert positions[-1] - positions[0] == sizes[group] - 1
            assert violations(store) == []
            assert check_log(self.place.url, **self.place.options).problems == []
            alone = store.append(Event("Alone", {}))
            assert alone.position == store.head()
            return store.head()


def await_end(url: str, name: str) -> None:
    """Wait until the server noticed that its client is gone: what it began it may still commit."""
    asked = "select count(*) from pg_stat_activity where application_name = %s"
    with contextlib.suppress(psycopg.OperationalError), psycopg.connect(url, autocommit=True) as connection:
        while connection.execute(asked, [name]).fetchone() != (0,):
            time.sleep(0.01)


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

        def new_victim(kill: int) -> Victim:
            place = new_log(arguments.url) if arguments.url else Place(Path(folder) / f"log{kill}.db")
            return Victim(place, arguments.seed + kill)

        victim = new_victim(0)
        for kill in range(1, arguments.kills + 1):
            victim.kill_one()
            if kill % 25 == 0 or kill == arguments.kills:
                head = victim.judge()
                print(f"{kill} kills, {len(victim.acknowledged)} acknowledged appends, head {head}: sound")
            if kill % 100 == 0:  # a log that grows for ever would make each judgement slower
                victim = new_victim(kill)


if __name__ == "__main__":
    main()
