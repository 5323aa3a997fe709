"""From a URL to an engine."""

from __future__ import annotations

import os
from typing import Literal

import msgspec

from ..errors import InvalidInput, MissingDependency
from . import Clock, Engine
from .memory import MemoryEngine
from .rules import Time

DEFAULT_LOG = "default"


class Place(msgspec.Struct, frozen=True):
    """Where a log is: which engine keeps it, and the file or the URL of the database."""

    engine: Literal["memory", "sqlite", "postgres"]
    address: str


def open_engine(
    url: str | os.PathLike[str], *, log: str, clock: Clock | None, record_conditions: bool, create: bool
) -> Engine:
    """Open the log at `url`."""
    place, time = place_of(url), Time(clock)
    if place.engine == "postgres":
        require_psycopg()
        from .postgres import PostgresEngine

        return PostgresEngine(
            place.address, time, log=log, record_conditions=record_conditions, create=create
        )
    if log != DEFAULT_LOG:
        raise InvalidInput(
            f"only a PostgreSQL database has several logs, so there is no log {log!r:.80} here",
            hint="leave log out; each file is a log of its own",
        )
    if place.engine == "memory":
        return MemoryEngine(time, record_conditions=record_conditions)
    from .sqlite import SqliteEngine

    return SqliteEngine(place.address, time, record_conditions=record_conditions, create=create)


def place_of(url: str | os.PathLike[str]) -> Place:
    """What a URL means."""
    if not isinstance(url, (str, os.PathLike)):
        raise InvalidInput(f"a store is named by text or a path, not {type(url).__name__}")
    text = os.fsdecode(url)
    if text == "memory:":
        return Place("memory", text)
    scheme, separator, rest = text.partition("://")
    if separator and scheme in {"postgresql", "postgres"}:
        return Place("postgres", text)
    if separator and scheme != "sqlite":
        raise InvalidInput(
            f"a store is a file, sqlite:///…, postgresql://… or memory:, not {scheme}://…",
            hint='for example strandline.connect("school.db")',
        )
    path = rest.removeprefix("/") if separator else text
    if not path or path == ":memory:" or "\0" in path:
        raise InvalidInput(
            f"{text!r} names no file", hint='strandline.connect("memory:") keeps a log in memory'
        )
    return Place("sqlite", path)


def require_psycopg() -> None:
    """Say what to install if the driver is missing."""
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise MissingDependency(
            f"PostgreSQL needs the psycopg driver, which cannot be loaded: {error}",
            hint="pip install 'strandline[postgres]'",
        ) from error
