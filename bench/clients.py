"""Many clients at once, each repeating one step, and how long every step took."""

from __future__ import annotations

import asyncio
import gc
import threading
from array import array
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from time import perf_counter

# A step does one operation and returns what it counts for: 1, or the number of events.
Step = Callable[[], int]
AsyncStep = Callable[[], Coroutine[None, None, int]]


@dataclass
class Sample:
    """What clients did between two moments of `perf_counter`, which all processes share."""

    begin: float
    end: float = 0.0
    units: int = 0
    latencies: array[float] = field(default_factory=lambda: array("d"))

    @property
    def rate(self) -> float:
        return self.units / (self.end - self.begin)

    def add(self, started: float, units: int) -> float:
        """Count a step that began at `started`, unless that was still the warm-up; the time now."""
        now = perf_counter()
        if started >= self.begin:
            self.latencies.append(now - started)
            self.units += units
            self.end = now
        return now

    def percentile(self, percent: float) -> float:
        """Seconds that so many percent of the steps took at most."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def join(samples: Sequence[Sample]) -> Sample:
    """What several clients did together."""
    joined = Sample(min(sample.begin for sample in samples), max(sample.end for sample in samples))
    for sample in samples:
        joined.units += sample.units
        joined.latencies += sample.latencies
    return joined


def warm_up(seconds: float) -> float:
    """How long clients work before it counts."""
    return min(0.3, seconds / 4)


def run_threads(steps: Sequence[Step], seconds: float) -> Sample:
    """Repeat each step in a thread of its own; every one runs at least once after the warm-up."""
    _set_own_objects_aside()
    begin = perf_counter() + warm_up(seconds)
    samples = [Sample(begin) for _ in steps]

    def repeat(step: Step, sample: Sample) -> None:
        now = perf_counter()
        while now < begin + seconds or not sample.latencies:
            now = sample.add(now, step())

    _in_threads(repeat, steps, samples)
    return join(samples)


def run_each(steps: Sequence[Step], times: int = 1) -> None:
    """Take each step so many times, in a thread of its own."""

    def repeat(step: Step) -> None:
        for _ in range(times):
            step()

    _in_threads(repeat, steps)


async def run_tasks(steps: Sequence[AsyncStep], seconds: float) -> Sample:
    """Like `run_threads`, in tasks of this event loop."""
    _set_own_objects_aside()
    begin = perf_counter() + warm_up(seconds)
    samples = [Sample(begin) for _ in steps]

    async def repeat(step: AsyncStep, sample: Sample) -> None:
        now = perf_counter()
        while now < begin + seconds or not sample.latencies:
            now = sample.add(now, await step())

    async with asyncio.TaskGroup() as group:
        for step, sample in zip(steps, samples, strict=True):
            group.create_task(repeat(step, sample))
    return join(samples)


def _set_own_objects_aside() -> None:
    """Let the collector not go through the decisions again and again that clients in Python have ready."""
    gc.collect()
    gc.freeze()


def _in_threads(target: Callable[..., None], *arguments: Sequence[object]) -> None:
    errors: list[BaseException] = []

    def guarded(*values: object) -> None:
        try:
            target(*values)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=each) for each in zip(*arguments, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
