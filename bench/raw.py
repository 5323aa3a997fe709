"""The raw limits of the machine: what one flush costs, what one SQLite commit costs, and to wait for one together."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from .clients import AsyncStep, Step

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


@contextmanager
def shared_flushes(directory: Path) -> Iterator[Step]:
    """Threads that wait for a flush which all share who wait, and do nothing else: who comes first flushes for all."""
    mutex, waiting, is_led = threading.Lock(), list[threading.Lock](), False

    def step() -> int:
        nonlocal is_led
        told = threading.Lock()
        told.acquire()
        with mutex:
            waiting.append(told)
            leads, is_led = not is_led, True
        while leads:
            with mutex:
                batch = waiting.copy()
                waiting.clear()
                leads = is_led = bool(batch)
            if batch:
                flush()
            for one in batch:
                one.release()
        told.acquire()
        return 1

    with flushes(directory) as flush:
        yield step


@contextmanager
def awaited_flushes(directory: Path) -> Iterator[AsyncStep]:
    """Tasks that do the same, with a thread that flushes."""
    waiting, is_led = list[asyncio.Future[None]](), False

    async def lead() -> None:
        nonlocal is_led
        while waiting:
            batch = waiting.copy()
            waiting.clear()
            await asyncio.to_thread(flush)
            for one in batch:
                one.set_result(None)
        is_led = False

    async def step() -> int:
        nonlocal is_led
        told = asyncio.get_running_loop().create_future()
        waiting.append(told)
        if not is_led:
            is_led = True
            leading[:] = [asyncio.create_task(lead())]  # or it might be collected
        await told
        return 1

    leading: list[asyncio.Task[None]] = []
    with flushes(directory) as flush:
        yield step
