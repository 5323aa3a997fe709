"""Strandline in a SQLite file, in this process: from threads, and from asyncio."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..homes import HomeName
from . import Running
from .strandline_client import InTasks, InThreads


class _InFile:
    home: HomeName = "embedded"
    durability = "WAL with synchronous=FULL: the log is flushed before every acknowledgement (group commit)"

    @contextmanager
    def serve(self, place: str) -> Iterator[Running]:
        yield Running(str(Path(place) / "bench.db"), None)


class StrandlineSqlite(_InFile, InThreads):
    """The embedded store as threads use it."""

    name = "strandline"


class StrandlineSqliteAsync(_InFile, InTasks):
    """The embedded store as tasks use it."""

    name = "strandline-async"
