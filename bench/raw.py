"""The raw limits of the machine: what one flush costs, and what one SQLite commit costs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from .clients import Step

BLOCK = 4096


@contextmanager
def flushes(directory: Path) -> Iterator[Step]:
    """Write 4 KiB at the end of a file and flush it with fdatasync."""
    file = os.open(directory / "flushes", os.O_CREAT | os.O_WRONLY, 0o600)
    block, offset = os.urandom(BLOCK), 0

    def step() -> int:
        nonlocal offset
        os.pwrite(file, block, offset)
        os.fdatasync(file)
        offset += BLOCK
        return 1

    try:
        yield step
    finally:
        os.close(file)


@contextmanager
def commits(directory: Path) -> Iterator[Step]:
    """Insert one row per transaction, in WAL mode with synchronous=FULL."""
    connection = apsw.Connection(str(directory / "commits.db"))
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, data BLOB)")
    row = (os.urandom(200),)

    def step() -> int:
        connection.execute("INSERT INTO rows (data) VALUES (?)", row)
        return 1

    try:
        yield step
    finally:
        connection.close()
