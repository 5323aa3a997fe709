"""Counts of what the server does. They cost a request less than a microsecond. `scrape` turns them into metrics."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

from ..append import AppendResult
from ..errors import AppendConditionFailed

REQUEST_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
SIZES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0, 5_000.0)


class Distribution:
    """How many values there were up to each bound, and their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class LogCounts:
    """What was appended to one log."""

    def __init__(self) -> None:
        self.appends = 0
        self.events = 0
        self.duplicates = 0
        self.conflicts = 0
        self.live_streams = 0
        self.append_events = Distribution(SIZES)
        self.bulk_appends = Distribution(SIZES)

    def add(self, outcome: object) -> None:
        """Count the outcome of an append: its result, or the error that refused it."""
        if isinstance(outcome, AppendResult):
            if outcome.duplicate:
                self.duplicates += 1
            else:
                self.appends += 1
                self.events += outcome.count
                self.append_events.add(outcome.count)
        elif isinstance(outcome, AppendConditionFailed):
            self.conflicts += 1


class Metrics:
    """What one application counts. It changes only in the event loop, so it needs no lock."""

    def __init__(self) -> None:
        self.under_way = 0
        self.requests: dict[tuple[str, str, int], Distribution] = {}
        self.problems: Counter[str] = Counter()
        self._logs: dict[str, LogCounts] = {}

    def log(self, name: str) -> LogCounts:
        """Return the counts of a log. Only a log that exists may be asked for: names are labels."""
        counts = self._logs.get(name)
        if counts is None:
            counts = self._logs[name] = LogCounts()
        return counts

    @property
    def live_streams(self) -> int:
        """How many live streams are open."""
        return sum(counts.live_streams for counts in self._logs.values())

    def add_request(self, method: str, path: str, status: int, seconds: float) -> None:
        """Count a request by the pattern of its path."""
        key = (method, path, status)
        latencies = self.requests.get(key)
        if latencies is None:
            latencies = self.requests[key] = Distribution(REQUEST_SECONDS)
        latencies.add(seconds)
