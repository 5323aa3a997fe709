"""How long a read may take: `connect(read_seconds=…)`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from ..errors import InvalidInput, Unavailable

T = TypeVar("T")


class Deadline:
    """The end of the time that a read may take. It begins now. Without seconds, there is none."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit."""
        return self._end is not None

    def is_over(self) -> bool:
        """Whether the time is up."""
        return self._end is not None and time.monotonic() >= self._end

    def check(self) -> None:
        """Raise if the time is up."""
        if self.is_over():
            raise self.too_long()

    def each(self, items: Iterable[T]) -> Iterable[T]:
        """The items, as long as there is time."""
        return items if self._end is None else self._checked(items)

    def _checked(self, items: Iterable[T]) -> Iterator[T]:
        for item in items:
            self.check()
            yield item
        self.check()

    def too_long(self) -> Unavailable:
        """The error for a read that has no time left."""
        return Unavailable(
            f"the read took longer than {self._seconds:g} seconds",
            hint="narrow the query, or allow more time: connect(…, read_seconds=…)",
        )


def check_read_seconds(seconds: float | None) -> float | None:
    """How long a read may take."""
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds <= 86_400:
        raise InvalidInput(
            f"read_seconds is a number of seconds above 0, at most a day, not {seconds!r:.40}",
            hint="for example read_seconds=30, or leave it out for no limit",
        )
    return float(seconds)
