"""`python -m bench.looking`: commands whose handlers look at every event, beside those that only count, and the cycle.

The log is filled once; in every round each way takes its turn, in a new order, on a copy of it. No states are kept.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import statistics
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import strandline
from strandline import AsyncEventStore, EventStore, Projection, command, on

from .clients import run_tasks, run_threads
from .commands import (
    Course,
    CourseCapacityChanged,
    CourseDefined,
    CourseId,
    Student,
    StudentId,
    StudentRegistered,
    StudentSubscribed,
    subscribe,
)
from .steps import Waitless, cycles, executes, in_thread
from .stores.strandline_client import AsyncStrandlineClient, StrandlineClient, _event, _query
from .workload import Decision, Query, Workload, note

BATCH = 1_000


class SeenCourse(Projection):
    """`Course`, with a look at each event."""

    id: CourseId
    is_defined: bool = False
    taken: int = 0
    last: str = ""

    @on
    def changed(self, event: CourseDefined | CourseCapacityChanged) -> None:
        self.is_defined, self.last = True, event.note

    @on
    def subscribed(self, event: StudentSubscribed) -> None:
        self.taken, self.last = self.taken + 1, event.student


class SeenStudent(Projection):
    """`Student`, with a look at each event."""

    id: StudentId
    is_registered: bool = False
    courses: int = 0
    last: str = ""

    @on
    def registered(self, event: StudentRegistered) -> None:
        self.is_registered, self.last = True, event.note

    @on
    def subscribed(self, event: StudentSubscribed) -> None:
        self.courses, self.last = self.courses + 1, event.course


@command
def subscribe_seen(course: SeenCourse, student: SeenStudent, note: str) -> Iterator[StudentSubscribed]:
    yield StudentSubscribed(course=course.id, student=student.id, note=note)


def asked(decision: Decision, *, looks: bool) -> tuple[Any, ...]:
    """The command for a decision, and its arguments."""
    course, student = decision.course, decision.student
    text = note(course, student)
    if looks:
        return subscribe_seen, SeenCourse(str(course)), SeenStudent(str(student)), text
    return subscribe, Course(str(course)), Student(str(student)), text


class LookingClient(StrandlineClient):
    """Looks at each event, or at none."""

    def __init__(self, store: EventStore, *, looks: bool) -> None:
        super().__init__(store)
        self._looks = looks

    def read(self, query: Query) -> tuple[int, int]:
        read = self._store.read(_query(query))
        return read.head, sum(_look(event, looks=self._looks) for event in read)

    def execute(self, decision: Decision) -> None:
        self._store.execute(*asked(decision, looks=self._looks))


class AsyncLookingClient(AsyncStrandlineClient):
    """The same for tasks."""

    def __init__(self, store: AsyncEventStore, *, looks: bool) -> None:
        super().__init__(store)
        self._looks = looks

    async def read(self, query: Query) -> tuple[int, int]:
        read = await self._store.read(_query(query))
        return read.head, sum([_look(event, looks=self._looks) async for event in read])

    async def execute(self, decision: Decision) -> None:
        await self._store.execute(*asked(decision, looks=self._looks))


def _look(event: Any, *, looks: bool) -> int:
    _ = event.type, event.json() if looks else event.data
    return 1


WAYS = {
    "cycle": (cycles, False),
    "cycle, JSON decoded": (cycles, True),
    "command": (executes, False),
    "command, all handlers look": (executes, True),
}


def rate(path: Path, way: str, workload: Workload, clients: int, seconds: float, *, tasks: bool) -> float:
    """Decisions per second."""
    make, looks = WAYS[way]
    decisions = [workload.decisions(index, clients) for index in range(clients)]
    if tasks:

        async def run() -> float:
            async with strandline.connect_async(path, decision_cache=0) as store:
                client = AsyncLookingClient(store, looks=looks)
                return (await run_tasks([make(client, each) for each in decisions], seconds)).rate

        return asyncio.run(run())
    with strandline.connect(path, decision_cache=0) as store:
        client = Waitless(LookingClient(store, looks=looks))
        return run_threads([in_thread(make(client, each)) for each in decisions], seconds).rate


def main(arguments: list[str] | None = None) -> None:
    """Measure each way with one client, 64 threads and 64 tasks; medians as JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--directory", default="/var/tmp", help="where files are made, and removed")
    options = parser.parse_args(arguments)
    workload = Workload(options.events)
    with tempfile.TemporaryDirectory(dir=options.directory) as folder:
        filled, copied = Path(folder, "filled.db"), Path(folder, "copied.db")
        with strandline.connect(filled) as store:
            events = (_event(each) for each in workload.history())
            while batch := list(islice(events, BATCH)):
                store.append(batch)
        for clients, tasks in ((1, False), (options.clients, False), (options.clients, True)):
            rates: dict[str, list[float]] = {way: [] for way in WAYS}
            for way in (way for _ in range(options.rounds) for way in random.sample([*WAYS], len(WAYS))):
                shutil.copy(filled, copied)
                rates[way].append(rate(copied, way, workload, clients, options.seconds, tasks=tasks))
                for left in Path(folder).glob("copied.db*"):
                    left.unlink()
            medians = {way: statistics.median(found) for way, found in rates.items()}
            told = {
                way: f"{median:,.0f}/s, {median / medians['cycle']:.0%}" for way, median in medians.items()
            }
            print(json.dumps({"clients": f"{clients} {'tasks' if tasks else 'threads'}", **told}), flush=True)


if __name__ == "__main__":
    main()
