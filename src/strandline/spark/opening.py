"""The log that a job works on, as the driver and the executors open it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..append import check_position
from ..engine import Engine
from ..engine.open import open_engine, place_of
from ..errors import InvalidInput


@contextmanager
def opened(url: str, log: str) -> Iterator[Engine]:
    """The engine of a log that is there, until the block ends."""
    refuse_memory(url)
    engine = open_engine(url, log=log, clock=None, record_conditions=True, create=False)
    try:
        yield engine
    finally:
        engine.close()


def refuse_memory(url: str) -> None:
    """What a process has in memory is for no other."""
    if place_of(url).engine == "memory":
        raise InvalidInput(
            "executors cannot read a log that is in this process's memory",
            hint="use a file or a PostgreSQL database",
        )


def head_of(url: str, log: str, until: int | None = None) -> int:
    """The head of the log, or the position `until` if that comes first."""
    wanted = None if until is None else check_position(until, "until")
    with opened(url, log) as engine:
        head = engine.head()
    return head if wanted is None else min(head, wanted)
