"""Consumers that lease events and acknowledge them, in threads of this process or of one that runs this file.

They do what consumers do at their worst: they acknowledge parts, give up, forget to acknowledge, and sleep beyond their
lease. Each writes down what it had and what was accepted.
"""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple

from places import Place
from strandline import Event, EventStore, FollowerFailed, Query
from strandline.follow import Leased

QUERY = Query.tag("wanted")
SECONDS = 0.3
PATIENCE_SECONDS = 2


class Record(NamedTuple):
    """What became of a lease: how far its events were acknowledged, and how far perhaps. A later one replaces it."""

    consumer: str
    lease: int
    positions: list[int]
    accepted: int
    perhaps: int


class Consumer:
    """Takes events until there were none for a while."""

    def __init__(self, store: EventStore, name: str, write: Callable[[Record], None]) -> None:
        self._follower = store.follower("f", QUERY)
        self._name = name
        self._write = write
        self._random = random.Random(name)
        self._leases = 0

    def consume(self) -> None:
        """Handle what comes."""
        while lease := self._follower.lease(
            self._random.choice([1, 3, 8]), wait=PATIENCE_SECONDS, seconds=SECONDS
        ):
            self._leases += 1
            with contextlib.suppress(FollowerFailed):  # it slept
                self._handle(lease)

    def _handle(self, lease: Leased) -> None:
        positions, accepted = [event.position for event in lease.events], 0
        while accepted < positions[-1]:
            mood = self._random.random()
            if mood < 0.02:
                return  # it forgets them
            if mood < 0.05:
                time.sleep(SECONDS * 1.2)
            position = self._random.choice([each for each in positions if each > accepted])
            self._write(Record(self._name, self._leases, positions, accepted, position))
            if mood > 0.9:
                self._follower.give_up(lease.token, position, "odd")
            else:
                self._follower.ack(lease.token, position)
            accepted = position
            self._write(Record(self._name, self._leases, positions, accepted, accepted))


def judge(records: Iterable[Record], wanted: list[int]) -> None:
    """Hold what consumers wrote down against what was to be consumed."""
    leases = [*{(record.consumer, record.lease): record for record in records}.values()]
    accepted = [position for each in leases for position in each.positions if position <= each.accepted]
    perhaps = {position for each in leases for position in each.positions if position <= each.perhaps}
    assert len(accepted) == len(set(accepted)), "two consumers acknowledged the same event"
    assert set(accepted) | perhaps == set(wanted), "an event was passed that nobody acknowledged"
    for name in {each.consumer for each in leases}:
        own = [each.positions for each in leases if each.consumer == name]
        assert all(earlier[0] <= later[0] for earlier, later in pairwise(own)), "a consumer went back"


def threads_of(store: EventStore, names: list[str], write: Callable[[Record], None]) -> None:
    """Consume in threads, until all is consumed."""
    failed: list[BaseException] = []

    def work(consumer: Consumer) -> None:
        try:
            consumer.consume()
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=work, args=(Consumer(store, name, write),)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


class Process:
    """Consumers in a process of their own."""

    def __init__(self, place: Place, names: list[str]) -> None:
        arguments = [*place.arguments, json.dumps(names)]
        self._process = subprocess.Popen(
            [sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True
        )
        self.is_ready = False
        self.records: list[Record] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        self.is_ready = self._process.stdout.readline() == "ready\n"
        for line in self._process.stdout:
            if line.endswith("\n"):
                self.records.append(Record(*json.loads(line)))

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def end(self, *, wait: bool = True) -> int:
        """See it end; returns its exit code."""
        try:
            return self._process.wait(60 if wait else 0)
        finally:
            self._process.kill()
            self._reader.join()
            self._process.communicate()


@contextmanager
def appending(store: EventStore, longest_pause: float = 0.02) -> Iterator[None]:
    """Append meanwhile."""
    is_over = threading.Event()

    def append() -> None:
        rng = random.Random(1)
        while not is_over.wait(rng.random() * longest_pause):
            events: list[Event] = []
            for tag, counts in (("wanted", [1, 3]), ("other", [1, 5])):
                events += [Event("Happened", {}, tags=[tag]) for _ in range(rng.choice(counts))]
            store.append(events)

    thread = threading.Thread(target=append)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def main(url: str, options: str, names: str) -> None:
    def write(record: Any) -> None:
        sys.stdout.write(json.dumps(record) + "\n")
        sys.stdout.flush()

    with Place(url, json.loads(options).get("log")).connect() as store:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        threads_of(store, json.loads(names), write)


if __name__ == "__main__":
    main(*sys.argv[1:])
