"""Where stores are prepared: filled once per kind of history, copied for every measurement that writes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from .machine import ForeignLoad
from .stores import Running, Store
from .workload import NewEvent, Workload

SMALL_EVENTS = 1_000
BATCH = 1_000

History = Literal["empty", "course", "hot", "small"]


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
    """A directory with prefilled stores and with the copy that is being measured."""

    def __init__(self, directory: Path, settings: Settings) -> None:
        self.directory = directory
        self.settings = settings
        self.foreign_cores = 0.0
        self._numbers = iter(range(1 << 30))

    @contextmanager
    def running(self, store: Store, history: History, *, writes: bool) -> Iterator[Running]:
        """A store with that history; what is written to it does not reach the next measurement."""
        prefilled = self.prefilled(store, history)
        with self.scratch() as scratch:
            if writes:
                _copy_flushed(prefilled, scratch)
            with store.serve(scratch if writes else prefilled) as running:
                watch = ForeignLoad(running.pid)
                yield running
                self.foreign_cores = watch.cores()

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """An empty directory for one measurement."""
        scratch = self.directory / f"run-{next(self._numbers)}"
        scratch.mkdir()
        try:
            yield scratch
        finally:
            shutil.rmtree(scratch)

    def prefilled(self, store: Store, history: History) -> Path:
        """The store with that history, filled when first asked for."""
        directory = self.directory / f"{store.prefilled_as}-{history}"
        if directory.exists():
            return directory
        directory.mkdir()
        events = self._events(history)
        with store.serve(directory) as running, store.connect(running.address) as client:
            while batch := list(islice(events, BATCH)):
                client.append_batch(batch)
        return directory

    def _events(self, history: History) -> Iterator[NewEvent]:
        match history:
            case "empty":
                return iter(())
            case "course":
                return self.settings.workload.history()
            case "hot":
                return self.settings.workload.hot_history()
            case "small":
                return self.settings.small_workload.history()


def _copy_flushed(source: Path, target: Path) -> None:
    # Pages of the copy that are still to be written would be paid for by the first flush measured.
    shutil.copytree(source, target, dirs_exist_ok=True)
    for path in target.rglob("*"):
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)
