"""Classes that several threads use for the first time at once, in a process of their own: a mistake would end it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import msgspec

import strandline
from strandline import DomainEvent, Event, EventStore, Projection, TagId, on

ROUNDS = 300
THREADS = 4


class CourseId(TagId): ...


def fresh() -> tuple[type[Projection], Event]:
    """A projection with a snapshot, of types that nobody has used yet; and an event of an older version."""
    globals().pop("Later", None)  # so that the classes below cannot be worked out before they are used

    class Line(msgspec.Struct):
        name: str
        amounts: list[int] = []

    class Added(DomainEvent, version=2):
        course: CourseId
        line: Later  # noqa: F821

        @staticmethod
        @strandline.upcast(1)
        def to_2(data: dict[str, Any]) -> dict[str, Any]:
            return {"course": data["course"], "line": {"name": "old"}}

    class Lines(Projection, snapshot_every=1, version=1):
        id: CourseId
        lines: list[Line] = []

        @on
        def added(self, event: Added) -> None:
            self.lines.append(Line(event.line.name))

    globals()["Later"] = msgspec.defstruct("Later", [("name", str)])
    return Lines, Event("Added", {"course": "c1"}, tags=[CourseId("c1")])


def at_once(call: Callable[[], object]) -> None:
    ready = threading.Barrier(THREADS)

    def run() -> None:
        ready.wait()
        call()

    threads = [threading.Thread(target=run) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> None:
    sys.setswitchinterval(1e-6)
    for _ in range(ROUNDS):
        lines, event = fresh()
        with strandline.connect("memory:") as store:
            store.append(event)
            engine = store.engine
            at_once(lambda lines=lines, engine=engine: EventStore(engine).project(lines("c1")))


if __name__ == "__main__":
    main()
