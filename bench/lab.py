"""Where stores are prepared: filled once per kind of history, copied for every measurement that writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from .homes import Home, HomeName
from .machine import ForeignLoad
from .processes import Workers
from .stores import Running, Store
from .workload import Log, NewEvent, Workload

BATCH = 1_000

History = Literal["course", "campus", "2k", "50k"]
COURSES: dict[History, int] = {"2k": 2_000, "50k": 50_000}  # in those that are named by it


@dataclass(frozen=True)
class Settings:
    """How much is measured."""

    events: int
    clients: tuple[int, ...]
    seconds: float
    rounds: int
    sizes: tuple[int, ...] = ()  # of other logs that some cases are measured with
    huge: int = 0  # of a log of ours that is measured once
    is_full: bool = False
    is_rehearsal: bool = (
        False  # nothing is copied, started anew or flushed for a number that nobody will read
    )


class Lab:
    """Homes with prefilled stores, and with the copy that is being measured."""

    def __init__(self, homes: Mapping[HomeName, Home], settings: Settings, directory: Path) -> None:
        self.settings = settings
        self.homes = homes
        self.directory = directory
        self.workers = Workers(always_fresh=not settings.is_rehearsal)
        self.foreign_cores = 0.0
        self._prefilled: dict[tuple[HomeName, str, History, int], str] = {}
        self._running: dict[tuple[str, History, int], Running] = {}
        self._serving = ExitStack()
        self._numbers = iter(range(1 << 30))

    def close(self) -> None:
        """End the other processes."""
        self._serving.close()
        self.workers.close()

    @contextmanager
    def running(
        self, store: Store, history: History = "course", *, events: int = 0, writes: bool
    ) -> Iterator[Running]:
        """A store with that history; what is written to it does not reach the next measurement.

        Unless the log is huge: then it does, for what one measurement adds is nothing beside what is there.
        """
        events = events or self.settings.events
        if self.settings.is_rehearsal:
            running = self._kept_running(store, history, events)
            with self.watched():
                yield running
            return
        prefilled = self._filled(store, history, events)
        is_copied = writes and events != self.settings.huge
        copied = self.scratch(store.home, copy_of=prefilled) if is_copied else nullcontext(prefilled)
        with copied as place, store.serve(place) as running, self.watched():
            yield running

    def _kept_running(self, store: Store, history: History, events: int) -> Running:
        key = store.name, history, events
        if key not in self._running:
            place = self._filled(store, history, events)
            self._running[key] = self._serving.enter_context(store.serve(place))
        return self._running[key]

    @contextmanager
    def watched(self) -> Iterator[None]:
        """See what else the machine does meanwhile."""
        if self.settings.is_rehearsal:
            yield
            return
        watch = ForeignLoad()
        yield
        self.foreign_cores = watch.cores()

    @contextmanager
    def scratch(self, home: HomeName, *, copy_of: str | None = None) -> Iterator[str]:
        """A place for one measurement: empty, or a copy."""
        name = f"run-{next(self._numbers)}"
        place = self.homes[home].make(name) if copy_of is None else self.homes[home].copy(copy_of, name)
        try:
            yield place
        finally:
            self.homes[home].remove(place)

    def _filled(self, store: Store, history: History, events: int) -> str:
        """The place with that history, filled when first asked for."""
        key = store.home, store.prefilled_as, history, events
        if key not in self._prefilled:
            home = self.homes[store.home]
            place = home.make(f"{store.prefilled_as}-{history}-{events}")
            new_events = _events(history, events)
            with store.serve(place) as running, store.connect(running.address) as client:
                while batch := list(islice(new_events, BATCH)):
                    client.append_batch(batch)
            home.settle(place)
            self._prefilled[key] = place
        return self._prefilled[key]


def _events(history: History, events: int) -> Iterator[NewEvent]:
    if history == "campus":
        return Workload(events).campus_history()
    return (Log(events, COURSES[history]) if history in COURSES else Workload(events)).history()
