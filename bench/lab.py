"""Where stores are prepared: filled once per kind of history, copied for every measurement that writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from .homes import Home, HomeName
from .machine import ForeignLoad
from .stores import Running, Store
from .workload import NewEvent, Workload

SMALL_EVENTS = 1_000
BATCH = 1_000

History = Literal["course", "hot", "small"]


@dataclass(frozen=True)
class Settings:
    """How much is measured."""

    events: int
    clients: tuple[int, ...]
    seconds: float
    rounds: int

    @property
    def workload(self) -> Workload:
        return Workload(self.events)

    @property
    def small_workload(self) -> Workload:
        return Workload(min(SMALL_EVENTS, self.events))


class Lab:
    """Homes with prefilled stores, and with the copy that is being measured."""

    def __init__(self, homes: Mapping[HomeName, Home], settings: Settings) -> None:
        self.settings = settings
        self.homes = homes
        self.foreign_cores = 0.0
        self._prefilled: dict[tuple[HomeName, str, History], str] = {}
        self._numbers = iter(range(1 << 30))

    @contextmanager
    def running(self, store: Store, history: History, *, writes: bool) -> Iterator[Running]:
        """A store with that history; what is written to it does not reach the next measurement."""
        prefilled = self._filled(store, history)
        copied = self.scratch(store.home, copy_of=prefilled) if writes else nullcontext(prefilled)
        with copied as place, store.serve(place) as running, self.watched():
            yield running

    @contextmanager
    def watched(self) -> Iterator[None]:
        """See what else the machine does meanwhile."""
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

    def _filled(self, store: Store, history: History) -> str:
        """The place with that history, filled when first asked for."""
        key = store.home, store.prefilled_as, history
        if key not in self._prefilled:
            home = self.homes[store.home]
            place = home.make(f"{store.prefilled_as}-{history}")
            events = self._events(history)
            with store.serve(place) as running, store.connect(running.address) as client:
                while batch := list(islice(events, BATCH)):
                    client.append_batch(batch)
            home.settle(place)
            self._prefilled[key] = place
        return self._prefilled[key]

    def _events(self, history: History) -> Iterator[NewEvent]:
        match history:
            case "course":
                return self.settings.workload.history()
            case "hot":
                return self.settings.workload.hot_history()
            case "small":
                return self.settings.small_workload.history()
