"""One process and its SQLite files: other code in it that uses the same file, and forks.

SQLite's own locks belong to the process, so any code that closes the file drops them, and a forked child believes
that it holds its parent's. `system_calls.c` replaces the calls by which SQLite opens and locks our files. After a fork,
the child gives up every connection of its parent, and may connect again at any time.

Without native code the child cannot open a file that its parent had open, and other code must not open our files.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from typing import Any, Literal, NoReturn, Protocol
from weakref import WeakKeyDictionary

import apsw

from ...errors import StoreClosed
from ...speedups import speedup

LockKind = Literal["ofd", "posix", "none"]

FORKED = "the store was opened before this process was forked"
CONNECT_AGAIN = "connect again in this process"

_native = speedup("strandline.engine.sqlite.system_calls")
_CALLS = ("open", "close", "fcntl", "stat", "fstat")

FileId = tuple[int, int]
"""The device and the inode of a file."""


class Inheritable(Protocol):
    """An object that a fork copies and only the parent may use."""

    def leave_to_parent(self) -> None:
        """Let go without touching the file or its locks."""
        ...


class Gone:
    """Stands where a connection of the parent was."""

    in_transaction = False

    def close(self, *_: object) -> None:
        """Close nothing."""

    def __getattr__(self, name: str) -> NoReturn:
        raise forked()

    def __call__(self, *_: object, **__: object) -> NoReturn:
        raise forked()


def forked() -> StoreClosed:
    """The error for a store that was opened before a fork."""
    return StoreClosed(FORKED, hint=CONNECT_AGAIN)


def leak(inherited: object) -> None:
    """Never free an object: SQLite would close the parent's connection, and could remove its write-ahead log."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(inherited))


class Process:
    """The connections and locks that this process has open."""

    def __init__(self) -> None:
        self._inheritable: WeakKeyDictionary[Inheritable, FileId | None] = WeakKeyDictionary()
        self._inherited_files: set[FileId | None] = set()
        self._known_paths: set[str] = set()
        self._installing = threading.Lock()
        self._lock_kind: LockKind | None = None

    @property
    def lock_kind(self) -> LockKind:
        """Which locks SQLite takes on our files: `ofd` and `posix` survive a fork, only `ofd` other code in the process."""
        if self._lock_kind is None:
            with self._installing:
                self._lock_kind = self._lock_kind or _install()
        return self._lock_kind

    def prepare(self, path: str) -> None:
        """Make a file safe for SQLite to open. Raises `StoreClosed` if this process must not open it."""
        if self.lock_kind == "none":
            self._refuse_inherited(path)
            return
        assert _native is not None
        if _native.is_broken():
            raise StoreClosed(
                "this process was forked while another thread was busy in SQLite",
                hint="fork again, or start the process with spawn",
            )
        real = os.path.realpath(path)
        if real not in self._known_paths:
            _native.add_path(os.fsencode(real))
            self._known_paths.add(real)

    def add(self, inheritable: Inheritable, path: str | None = None) -> None:
        """Have an object leave its file to the parent after a fork. With a path it has that file open."""
        self._inheritable[inheritable] = None if path is None else _file_id(path)

    def remove(self, inheritable: Inheritable) -> None:
        """Forget an object that was closed."""
        self._inheritable.pop(inheritable, None)

    def leave_to_parent(self) -> None:
        """Give up everything that the parent of this process has open."""
        self._installing = threading.Lock()
        self._inherited_files.update(self._inheritable.values())
        for inheritable in list(self._inheritable):
            inheritable.leave_to_parent()
        self._inheritable = WeakKeyDictionary()

    def _refuse_inherited(self, path: str) -> None:
        file = _file_id(path)
        if file is not None and file in self._inherited_files:
            raise StoreClosed(
                f"{path} was open when this process was forked, and Strandline runs without native code here",
                hint="close every store before the fork, or start the process with spawn",
            )


def _install() -> LockKind:
    """Replace the system calls that SQLite makes."""
    if _native is None or _native.__file__ is None:
        return "none"
    try:
        connection = apsw.Connection(":memory:")
        try:
            connection.enable_load_extension(True)
            connection.load_extension(_native.__file__, "strandline_learn_mutexes")
        finally:
            connection.close()
        unix = apsw.VFS("strandline-system-calls", "unix")
    except (
        AttributeError,
        ValueError,
        apsw.Error,
    ):  # this SQLite loads no extensions, or knows no such system
        return "none"
    try:
        theirs = {name: unix.xGetSystemCall(name) for name in _CALLS}
        if None in theirs.values():
            return "none"
        for name, call in _native.replace(theirs).items():
            unix.xSetSystemCall(name, call)
    finally:
        unix.unregister()
    return "ofd" if _native.use_ofd(True) else "posix"


def _identify(path: str) -> FileId:
    found = os.stat(path)
    return found.st_dev, found.st_ino


# Every write asks for it. In C it takes a third of the time.
identify: Callable[[str], FileId] = getattr(_native, "identify", _identify)
"""Return the device and the inode of the file with a name."""


def _file_id(path: str) -> FileId | None:
    try:
        return identify(path)
    except OSError:
        return None


process = Process()

_register: Callable[..., Any] | None = getattr(os, "register_at_fork", None)
if _register is not None:
    _register(after_in_child=process.leave_to_parent)
