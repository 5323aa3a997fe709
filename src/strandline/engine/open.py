"""From a URL to an engine."""

from __future__ import annotations

import os

from ..errors import InvalidInput
from . import Clock, Engine
from .memory import MemoryEngine
from .rules import Time


def open_engine(
    url: str | os.PathLike[str], *, clock: Clock | None, record_conditions: bool, create: bool
) -> Engine:
    """Open the log at `url`."""
    path = sqlite_path(url)
    if path is None:
        return MemoryEngine(Time(clock), record_conditions=record_conditions)
    from .sqlite import SqliteEngine

    return SqliteEngine(path, Time(clock), record_conditions=record_conditions, create=create)


def sqlite_path(url: str | os.PathLike[str]) -> str | None:
    """The file that a URL names, None for `memory:`."""
    if not isinstance(url, (str, os.PathLike)):
        raise InvalidInput(f"a store is named by text or a path, not {type(url).__name__}")
    text = os.fsdecode(url)
    if text == "memory:":
        return None
    scheme, separator, rest = text.partition("://")
    if separator and scheme != "sqlite":
        raise InvalidInput(
            f"a store is a file, sqlite:///… or memory:, not {scheme}://…",
            hint='for example strandline.connect("school.db")',
        )
    path = rest.removeprefix("/") if separator else text
    if not path or path == ":memory:" or "\0" in path:
        raise InvalidInput(
            f"{text!r} names no file", hint='strandline.connect("memory:") keeps a log in memory'
        )
    return path
