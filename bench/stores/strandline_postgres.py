"""Strandline on a PostgreSQL server: from threads, and from asyncio."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..homes import HomeName
from . import Running
from .strandline_client import InTasks, InThreads


class _OnServer:
    home: HomeName = "postgres"
    durability = "every commit is flushed before it is acknowledged (group commit in the client)"

    @contextmanager
    def serve(self, place: str) -> Iterator[Running]:
        yield Running(place, None)


class StrandlinePostgres(_OnServer, InThreads):
    """The store on a server as threads use it."""

    name = "strandline-pg"


class StrandlinePostgresAsync(_OnServer, InTasks):
    """The store on a server as tasks use it."""

    name = "strandline-pg-async"
