"""System calls of SQLite that fail: the n-th one of a kind, once or from then on.

SQLite lets its `unix` VFS be given other system calls; these are functions of Python that call the ones that were
there, unless it is their turn to fail. It calls `fsync` by itself, so the method `xSync` of every file is replaced too.
A failure is one of the operating system's, so nothing of Python's stands between it and SQLite's own handling.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import POINTER, c_char_p, c_int, c_int64, c_short, c_size_t, c_ssize_t, c_uint, c_void_p
from typing import Any

import apsw

from strandline.engine.sqlite import file_lock

SYNC, LOCK_FILE = "sync", "flock"
FOR_EVER = 10**9

# Of each call: what it returns, what it takes, what it returns if it fails, and the errors that it may fail with.
CALLS: dict[str, tuple[Any, tuple[Any, ...], int, tuple[int, ...]]] = {
    "open": (c_int, (c_char_p, c_int, c_int), -1, (errno.EMFILE, errno.EIO, errno.EACCES, errno.EINTR)),
    "close": (c_int, (c_int,), -1, (errno.EIO, errno.EINTR)),
    "access": (c_int, (c_char_p, c_int), -1, (errno.EIO, errno.EACCES)),
    "stat": (c_int, (c_char_p, c_void_p), -1, (errno.EIO, errno.EACCES)),
    "fstat": (c_int, (c_int, c_void_p), -1, (errno.EIO,)),
    "ftruncate": (c_int, (c_int, c_int64), -1, (errno.EIO, errno.ENOSPC, errno.EINTR)),
    "fcntl": (c_int, (c_int, c_int, c_void_p), -1, (errno.EIO, errno.ENOLCK, errno.EINTR, errno.EACCES)),
    "pread64": (c_ssize_t, (c_int, c_void_p, c_size_t, c_int64), -1, (errno.EIO, errno.EINTR)),
    "write": (c_ssize_t, (c_int, c_void_p, c_size_t), -1, (errno.EIO, errno.ENOSPC, errno.EINTR)),
    "pwrite64": (
        c_ssize_t,
        (c_int, c_void_p, c_size_t, c_int64),
        -1,
        (errno.EIO, errno.ENOSPC, errno.EINTR),
    ),
    "unlink": (c_int, (c_char_p,), -1, (errno.EIO, errno.EACCES)),
    "openDirectory": (c_int, (c_char_p, POINTER(c_int)), apsw.SQLITE_CANTOPEN, (errno.EMFILE,)),
    "mmap": (c_void_p, (c_void_p, c_size_t, c_int, c_int, c_int, c_int64), -1, (errno.ENOMEM,)),
    "mremap": (c_void_p, (c_void_p, c_size_t, c_size_t, c_int, c_void_p), -1, (errno.ENOMEM,)),
    "fchmod": (c_int, (c_int, c_uint), -1, (errno.EACCES,)),
}
ERRORS: dict[str, tuple[int, ...]] = {
    **{name: errors for name, (*_, errors) in CALLS.items()},
    SYNC: (errno.EIO,),
    LOCK_FILE: (errno.ENOLCK,),
}

XOPEN, XSYNC = 40, 40  # where their pointers are in `sqlite3_vfs` and in `sqlite3_io_methods`
METHODS_BYTES = 152
OPEN = ctypes.CFUNCTYPE(
    c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p
)  # SQLite keeps the pointer to the name
SYNC_METHOD = ctypes.CFUNCTYPE(c_int, c_void_p, c_int)


class Calls:
    """Counts calls, and makes one kind fail."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._name = ""
        self._first, self._last, self._error = 0, 0, 0

    def fail(self, name: str, number: int, error: int, *, times: int = 1) -> None:
        """Have the calls of a kind fail from the n-th on, as often as said."""
        self._name, self._first, self._last, self._error = name, number, number + times - 1, error
        self.counts.clear()

    def heal(self) -> None:
        """No call fails any more."""
        self._name = ""

    def error(self, name: str) -> int:
        """The error of this call, 0 if it does not fail."""
        with self._lock:
            self.counts[name] += 1
            is_next = name == self._name and self._first <= self.counts[name] <= self._last
        return self._error if is_next else 0

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Stand between SQLite and the system. The store's own replacements of calls must be there already."""
        kept: list[Any] = []  # what C calls must not be collected
        vfs = apsw.VFS("failing-calls", "unix")
        before = {name: pointer for name in CALLS if (pointer := vfs.xGetSystemCall(name))}
        flock = file_lock.fcntl
        with self._sync_replaced(kept):
            try:
                for name, pointer in before.items():
                    call = self._replacement(name, pointer)
                    kept.append(call)
                    vfs.xSetSystemCall(name, ctypes.cast(call, c_void_p).value)
                file_lock.fcntl = FlockModule(self, flock)  # type: ignore[assignment]
                yield
            finally:
                file_lock.fcntl = flock
                for name, pointer in before.items():
                    vfs.xSetSystemCall(name, pointer)
                vfs.unregister()

    def _replacement(self, name: str, pointer: int) -> Any:
        returns, takes, failure, _ = CALLS[name]
        kind = ctypes.CFUNCTYPE(returns, *takes, use_errno=True)
        real = kind(pointer)

        def call(*arguments: Any) -> Any:
            if name == "fcntl" and _lets_go(*arguments):
                return real(*arguments)
            error = self.error(name)
            if not error:
                return real(*arguments)
            if name == "close":  # it fails, and the file is closed nevertheless
                real(*arguments)
            ctypes.set_errno(error)
            return failure

        return kind(call)

    @contextmanager
    def _sync_replaced(self, kept: list[Any]) -> Iterator[None]:
        vfs = _address_of_vfs()
        place = c_void_p.from_address(vfs + XOPEN)
        before = place.value
        assert before is not None
        real_open = OPEN(before)
        copies: dict[int, Any] = {}

        def opened(vfs: int, name: int, file: int, flags: int, out: int) -> int:
            code = real_open(vfs, name, file, flags, out)
            methods = c_void_p.from_address(file)
            if code == apsw.SQLITE_OK and methods.value:
                if methods.value not in copies:
                    copies[methods.value] = self._with_sync(methods.value, kept)
                methods.value = ctypes.addressof(copies[methods.value])
            return int(code)

        kept += [copies, callback := OPEN(opened)]
        place.value = ctypes.cast(callback, c_void_p).value
        try:
            yield
        finally:
            place.value = before

    def _with_sync(self, methods: int, kept: list[Any]) -> Any:
        copy = ctypes.create_string_buffer(ctypes.string_at(methods, METHODS_BYTES), METHODS_BYTES)
        place = c_void_p.from_address(ctypes.addressof(copy) + XSYNC)

        def sync(file: int, flags: int) -> int:  # nothing is really synced: the power does not fail here
            return apsw.SQLITE_IOERR_FSYNC if self.error(SYNC) else apsw.SQLITE_OK

        kept.append(callback := SYNC_METHOD(sync))
        place.value = ctypes.cast(callback, c_void_p).value
        return copy


class FlockModule:
    """`fcntl`, whose `flock` may fail."""

    def __init__(self, calls: Calls, real: Any) -> None:
        self._calls = calls
        self._real = real

    def flock(self, file: int, operation: int) -> None:
        """See `fcntl.flock`."""
        if error := self._calls.error(LOCK_FILE):
            raise OSError(error, os.strerror(error))
        self._real.flock(file, operation)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def _lets_go(_file: int, operation: int, argument: int | None) -> bool:
    """Whether a call of `fcntl` lets go of a lock.

    No local disk fails at that. If one did, the lock would stay, and SQLite has no answer to it.
    """
    return operation == fcntl.F_SETLK and c_short.from_address(argument or 0).value == fcntl.F_UNLCK


def _address_of_vfs() -> int:
    """Where SQLite keeps the structure of the `unix` VFS."""
    found = c_void_p()
    database = apsw.Connection(":memory:")
    try:
        database.file_control("main", apsw.SQLITE_FCNTL_VFS_POINTER, ctypes.addressof(found))
    finally:
        database.close()
    assert found.value is not None
    return found.value
