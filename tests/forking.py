"""A store in a program that forks: while its threads write, read and follow, children connect and sell seats too.

usage: python tests/forking.py URL CHILDREN WITNESS [--log LOG] [--sqlite3]

Each process sells seats of one course, 0, 1, 2, …, each under the condition that it is free. It writes down what was
acknowledged. At the end every acknowledged append must be there, no seat may be sold twice, and the log must be sound.
With --sqlite3 a thread of the parent opens, reads and closes the file by Python's own library all the time.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import itertools
import os
import random
import signal
import sqlite3
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import strandline
from strandline import AppendConditionFailed, Event, EventStore, Query, StoreClosed
from strandline.engine.maintenance import check_log
from strandline.testing import violations

Connect = Callable[[], EventStore]
SEATS = Query.tag("course:c1")
SECONDS_UNTIL_HANGING = 60


def sell(store: EventStore, seats: int, sold: Callable[[str], None]) -> None:
    """Sell so many seats, each one the next that is free."""
    done = 0
    while done < seats:
        read = store.read(SEATS, backwards=True, limit=1)
        seat = next((int(event.json()["seat"]) for event in read), -1) + 1
        event = Event("Sold", {"seat": seat}, tags=["course:c1"])
        with contextlib.suppress(AppendConditionFailed):
            store.append(event, read.condition)
            sold(str(event.id))
            done += 1


class Witness:
    """Writes acknowledged appends into a file that all processes append to."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def __call__(self, id: str) -> None:
        os.write(self._file, f"{id}\n".encode())


class Parent:
    """Everything that a process may do with a store while it forks."""

    def __init__(self, connect: Connect, witness: Witness, database: str | None) -> None:
        self._connect_again, self._witness, self._database = connect, witness, database
        self.store = connect()
        self._is_over = False
        works = [self._write, self._write, self._read_all, self._subscribe, self._follow, self._connect]
        works += [self._look_by_sqlite3] if database else []
        self._threads = [threading.Thread(target=self._run, args=(work,), daemon=True) for work in works]
        self.failures: list[BaseException] = []

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._is_over = True
        for thread in self._threads:
            thread.join()
        self.store.close()

    def _run(self, work: Callable[[], None]) -> None:
        try:
            while not self._is_over:
                work()
        except BaseException as error:
            self.failures.append(error)
            raise

    def _write(self) -> None:
        sell(self.store, 1, self._witness)

    def _read_all(self) -> None:
        for _ in self.store.read():
            if self._is_over:
                break

    def _subscribe(self) -> None:
        subscription = self.store.subscribe(SEATS)
        for _ in itertools.islice(subscription, 50):
            if self._is_over:
                break
        subscription.stop()

    def _follow(self) -> None:
        self.store.follower("seats", SEATS).catch_up(lambda events, tx: tx.execute("select 1"))
        time.sleep(0.001)

    def _connect(self) -> None:
        with self._connect_again() as other:
            other.head()

    def _look_by_sqlite3(self) -> None:
        assert self._database is not None
        with contextlib.closing(sqlite3.connect(self._database)) as connection:
            connection.execute("select count(*) from event").fetchall()


def child(connect: Connect, inherited: EventStore, witness: Witness, random: random.Random) -> None:
    """Use the inherited store in vain, then an own one; sometimes fork again."""
    try:
        inherited.append(Event("Lost", {}))
    except StoreClosed:
        pass
    else:
        raise AssertionError("an inherited store was used")
    store = connect()
    sell(store, random.randrange(1, 4), witness)
    if random.random() < 0.2:
        wait_for(fork(lambda: child(connect, store, witness, random)))
    if random.random() < 0.5:
        store.close()
    if random.random() < 0.3:
        inherited.close()


def fork(work: Callable[[], None]) -> int:
    """The number of a process that does the work, and ends like a usual program, or at once."""
    pid = os.fork()
    if pid:
        return pid
    end_if_it_hangs()
    try:
        work()
    except Exception:
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    if os.getpid() % 2:
        os._exit(0)
    sys.exit(0)


def end_if_it_hangs() -> None:
    """Print where every thread of this process is, and end it, after a while."""
    faulthandler.register(signal.SIGALRM, chain=True)
    signal.alarm(SECONDS_UNTIL_HANGING)


def wait_for(pid: int) -> None:
    """Raise if the process failed."""
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code == 0, f"a child ended with {code}"


def main() -> None:
    """Fork, wait, judge."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("children", type=int)
    parser.add_argument("witness", help="a new file for the ids of acknowledged appends")
    parser.add_argument("--log", default="default")
    parser.add_argument("--sqlite3", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", DeprecationWarning)  # forking beside threads is what this is about
    end_if_it_hangs()
    connect = partial(strandline.connect, arguments.url, log=arguments.log)
    chance = random.Random(arguments.seed)
    witness = Witness(arguments.witness)
    database = arguments.url if arguments.sqlite3 else None
    parent = Parent(connect, witness, database)
    parent.start()
    children: list[int] = []
    for number in range(arguments.children):
        own = random.Random(chance.random())
        children.append(fork(partial(child, connect, parent.store, witness, own)))
        if len(children) == 4:
            wait_for(children.pop(0))
        if number == arguments.children // 2:
            parent.end()  # the children that still run must lose nothing by that
            parent = Parent(connect, witness, database)
            parent.start()
    for pid in children:
        wait_for(pid)
    parent.end()
    assert not parent.failures
    with connect() as store:
        judge(store, Path(arguments.witness).read_text().split())
    report = check_log(arguments.url, log=arguments.log)
    assert report.problems == [], report.problems


def judge(store: EventStore, acknowledged: list[str]) -> None:
    """Raise unless the log has what was acknowledged, and nothing else."""
    events = list(store.read(SEATS))
    ids = Counter(str(event.id) for event in events)
    assert ids == Counter(acknowledged), "an append was lost, or is twice"
    seats = [event.json()["seat"] for event in events]
    assert seats == list(range(len(events))), "a seat was sold twice"
    assert not store.exists(Query.types("Lost"))
    assert violations(store) == []
    print(f"{len(events)} seats sold, none twice, none lost")


if __name__ == "__main__":
    main()
