"""What the tests of followers share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from strandline import Event, EventStore, SequencedEvent
from strandline.follow import Follower

PATIENCE_SECONDS = 20


def some(*tags: str, count: int = 1, type: str = "Happened", **fields: Any) -> list[Event]:
    return [Event(type, fields, tags=tags) for _ in range(count)]


class Seen:
    """A handler that keeps what it gets."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []

    def __call__(self, events: Sequence[SequencedEvent], tx: Any) -> None:
        self.batches.append([event.position for event in events])

    @property
    def positions(self) -> list[int]:
        return [position for batch in self.batches for position in batch]


def until(holds: Callable[[], object], what: str = "that") -> None:
    """Wait until something holds."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end, f"it took too long until {what}"
        time.sleep(0.005)


@contextmanager
def in_thread(run: Callable[[], Any], stop: Callable[[], None]) -> Iterator[list[Any]]:
    """Something runs in a thread until it is stopped; what came of it is in the list at the end."""
    outcome: list[Any] = []

    def work() -> None:
        try:
            outcome.append(run())
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield outcome
    finally:
        if not outcome:
            stop()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive(), "it does not stop"


def running(follower: Follower, handle: Any, **options: Any) -> AbstractContextManager[list[Any]]:
    """The follower runs in a thread."""
    return in_thread(lambda: follower.run(handle, **options), follower.stop)


class Tally:
    """A handler that writes each event into a table of the store's own database."""

    def __init__(self, place: Any, name: str = "seen") -> None:
        self.table = f"public.{name}_{place.log}" if place.is_in_database else name
        self._mark = "%s" if place.is_in_database else "?"

    def make(self, store: EventStore) -> None:
        tx = store.engine.transaction()
        tx.begin()
        tx.execute(f"create table {self.table} (position bigint, times bigint)")
        tx.commit()
        tx.end()

    def __call__(self, events: Sequence[SequencedEvent], tx: Any) -> None:
        for event in events:
            tx.execute(f"insert into {self.table} values ({self._mark}, 1)", (event.position,))

    async def later(self, events: Sequence[SequencedEvent], tx: Any) -> None:
        for event in events:
            await tx.execute(f"insert into {self.table} values ({self._mark}, 1)", (event.position,))

    def positions(self, store: EventStore) -> list[int]:
        tx = store.engine.transaction()
        tx.begin()
        try:
            return [position for (position,) in tx.execute(f"select position from {self.table}")]
        finally:
            tx.end()
