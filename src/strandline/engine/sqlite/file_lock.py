"""The lock between processes, and which process holds it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

from ...errors import Unavailable
from ...speedups import speedup
from ..rules import LOCK_SECONDS
from .process import forked, process

LOOK_AGAIN_SECONDS = 0.001
_LOCKS = Path("/proc/locks")

P = ParamSpec("P")
T = TypeVar("T")

_native = speedup("strandline.engine.sqlite.system_calls")


class FileLock:
    """A lock between processes, on `<file>.lock`. The kernel queues the processes that wait.

    SQLite's own lock makes them poll, and one process can starve another.
    """

    def __init__(self, path: str, seconds: float = LOCK_SECONDS) -> None:
        self._path = f"{path}.lock"
        self._seconds = seconds
        self._file: int | None = None
        self._is_held = False
        self._is_inherited = False

    def open(self) -> int:
        """Open the lock file, which is made if need be."""
        if self._is_inherited:
            raise forked()
        if self._file is None:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            process.add(self)
        return self._file

    def acquire(self) -> None:
        """Wait for the lock. Raises `Unavailable` if another process keeps it for too long."""
        file = self.open()
        # Before it is held: after an interrupt, `release` lets go of what may have been taken.
        self._is_held = True
        if not take(file, self._seconds):
            self._is_held = False
            raise self._is_kept()

    def release(self) -> None:
        """Let the next process in, if that was not done."""
        if self._is_held and self._file is not None:
            try:
                fcntl.flock(self._file, fcntl.LOCK_UN)
            except OSError:
                self.close()  # a file that is closed has no lock
        self._is_held = False

    def release_by(self, release: Callable[[int], bool]) -> None:
        """Have a function let the next process in. It gets the file, and returns whether it could."""
        assert self._file is not None
        self._is_held = not release(self._file)

    def hold(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do the work while this process has the lock, and return its result."""
        unlock = partial(fcntl.flock, self.open(), fcntl.LOCK_UN)
        try:
            self.acquire()
            return work(*args, **kwargs)
        finally:
            if self._is_held:
                try:
                    unlock()  # one call in C: an interrupt can come after it, but not before
                except OSError:
                    self.close()  # a file that is closed has no lock
                self._is_held = False

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the lock file."""
        file, self._file = self._file, None  # first: after an interrupt, another file may have its number
        if file is not None:
            os.close(file)
            process.remove(self)

    def leave_to_parent(self) -> None:
        """Never take the lock again: this process is a fork of the one that may hold it, and goes on holding it."""
        self._is_inherited = True
        self._is_held = False
        self.close()

    def _is_kept(self) -> Unavailable:
        holder = holder_of(self._path)
        database = self._path.removesuffix(".lock")
        kept = (
            f"{holder or 'another process'} has kept the lock of {database} for more than {self._seconds:g} s"
        )
        return Unavailable(
            kept,
            hint="if that process is stopped, let it go on or end it, then send the same again;"
            " connect(lock_timeout=…) sets how long to wait",
            written=False,
        )


def _take(file: int, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if time.monotonic() >= end:
            return False
        time.sleep(LOOK_AGAIN_SECONDS)


take: Callable[[int, float], bool] = getattr(_native, "lock", _take)
"""Lock a file. Returns False if another process has it for so many seconds."""


def holder_of(path: str) -> str | None:
    """The process that has a file locked by flock: `process 12 (python, stopped)`. None if the system does not tell."""
    try:
        ending = f":{os.stat(path).st_ino}"
        lines = [line.split() for line in _LOCKS.read_text(encoding="ascii").splitlines()]
    except OSError:
        return None
    # As proc(5) shows it: number, FLOCK, ADVISORY, WRITE, process, device:inode, …; a waiting one has -> after the number.
    holders = [line[4] for line in lines if line[1] == "FLOCK" and line[5].endswith(ending)]
    return described(int(holders[0])) if holders and int(holders[0]) > 0 else None


def described(pid: int) -> str:
    """A process in words, with what is known about it."""
    if pid == os.getpid():
        return "this process (by another store, or by a handler)"
    try:
        name, _, rest = (
            Path(f"/proc/{pid}/stat").read_text(errors="replace").partition("(")[2].rpartition(")")
        )
    except OSError:
        return f"process {pid}"
    return f"process {pid} ({name}{', stopped' if rest.split()[0] in 'Tt' else ''})"
