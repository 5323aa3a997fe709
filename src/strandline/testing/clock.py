"""A clock that stands still until a test moves it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 1, tzinfo=UTC)


class ManualClock:
    """`strandline.connect(url, clock=ManualClock())`: the time is what the test says."""

    def __init__(self, now: datetime = START) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def move(self, seconds: float) -> datetime:
        """Move the clock, backwards if negative, and return the new time."""
        self.now += timedelta(seconds=seconds)
        return self.now
