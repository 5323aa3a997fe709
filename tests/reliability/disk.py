"""A disk that loses its power: a VFS of SQLite that writes down every operation, and what a cut leaves of the files.

SQLite may rely on this, and on no more: what was written before a sync that has returned is there. Of everything else,
each sector of 512 bytes is there or not, in whatever order it was written; and so are new and removed files, until
their folder is synced. The shared memory (`-shm`) is gone. Between its own writes and syncs a file has every byte
that was ever written, so the store notices nothing.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import apsw

SECTOR = 512
PAGES_BETWEEN_CHECKPOINTS = 60
NAME = "power-cuts"
HAS_OWN_FOLDER_SYNC = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL


class Made(NamedTuple):
    """A name in the folder leads to a new file."""

    name: str
    file: int


class Removed(NamedTuple):
    name: str


class Written(NamedTuple):
    file: int
    at: int
    data: bytes


class Truncated(NamedTuple):
    file: int
    size: int


class Synced(NamedTuple):
    """A sync has returned: what was done to the file before operation `begun` is on the disk."""

    file: int
    begun: int


class FolderSynced(NamedTuple):
    begun: int


class Acknowledged(NamedTuple):
    """From here on a caller relies on something."""

    what: Any


class Disk:
    """What was done to the files of one folder, in order."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.operations: list[Any] = []
        self.files: dict[str, int] = {}
        self._lock = threading.Lock()
        for path in folder.iterdir():
            self._keep(self.file_at(path), path.read_bytes())
        self._begin = len(self.operations)  # no cut takes what was there at first

    def acknowledge(self, what: Any) -> None:
        """Note that a caller was told something."""
        self.operations.append(Acknowledged(what))

    def holds(self, path: str | None) -> bool:
        """Whether a file is in this folder."""
        return path is not None and Path(path).parent == self.folder

    def file_at(self, path: Path) -> int:
        """The number of the file that has this name now."""
        with self._lock:
            if path.name not in self.files:
                self.files[path.name] = len(self.operations)
                self.operations.append(Made(path.name, self.files[path.name]))
            return self.files[path.name]

    def _keep(self, file: int, content: bytes) -> None:
        begun = len(self.operations) + 1
        self.operations += [Written(file, 0, content), Synced(file, begun), FolderSynced(begun)]

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Have every connection that is opened meanwhile use this disk."""
        before = next(name for name in apsw.vfs_names())
        vfs = RecordingVfs(self)
        try:
            yield
        finally:
            apsw.set_default_vfs(before)
            vfs.unregister()

    def cuts(self, seed: int, count: int) -> Iterator[Cut]:
        """The disk after power cuts at `count` moments, in the order of the operations."""
        rng = random.Random(seed)
        last = len(self.operations)
        moments = sorted(rng.randrange(self._begin, last + 1) for _ in range(count))
        state = State()
        done = 0
        for number, moment in enumerate(moments):
            while done < moment:
                state.do(done, self.operations[done])
                done += 1
            yield state.cut(moment, random.Random(f"{seed} {number}"))


class RecordingVfs(apsw.VFS):
    """Beneath the store, above the `unix` VFS."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        super().__init__(NAME, "unix", makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if not self._disk.holds(path):
            return apsw.VFSFile("unix", name, flags)
        return RecordedFile(self._disk, name, path, flags)

    def xDelete(self, path: str, is_folder_synced: bool) -> None:
        begun = len(self._disk.operations)
        super().xDelete(path, is_folder_synced)
        if self._disk.holds(path):
            self._disk.files.pop(os.path.basename(path), None)
            self._disk.operations.append(Removed(os.path.basename(path)))
            if is_folder_synced:
                self._disk.operations.append(FolderSynced(begun + 1))


class RecordedFile(apsw.VFSFile):
    """A file of the disk."""

    def __init__(self, disk: Disk, name: Any, path: str, flags: list[int]) -> None:
        self._operations = disk.operations
        self._syncs_folder = bool(flags[0] & HAS_OWN_FOLDER_SYNC)
        super().__init__("unix", name, flags)
        self._file = disk.file_at(Path(path))

    def xWrite(self, data: bytes, at: int) -> None:
        super().xWrite(data, at)
        self._operations.append(Written(self._file, at, bytes(data)))

    def xTruncate(self, size: int) -> None:
        super().xTruncate(size)
        self._operations.append(Truncated(self._file, size))

    def xSync(self, flags: int) -> None:
        begun = len(self._operations)  # the real disk need not do it: the power does not really fail
        time.sleep(0)
        self._operations.append(Synced(self._file, begun))
        if self._syncs_folder:  # as SQLite does after it opened a journal
            self._syncs_folder = False
            self._operations.append(FolderSynced(begun))


class Cut(NamedTuple):
    """What is there after a power cut, and what was acknowledged before."""

    moment: int
    how: str
    files: dict[str, bytes]
    acknowledged: list[Any]

    def restore(self, folder: Path) -> None:
        """Put the files where a store can open them."""
        for name, content in self.files.items():
            (folder / name).write_bytes(content)


class State:
    """The disk at one moment: what is safe, and what is on its way."""

    def __init__(self) -> None:
        self._contents: dict[int, bytearray] = {}
        self._names: dict[str, int] = {}
        self._changes: dict[int, list[tuple[int, Written | Truncated]]] = {}
        self._entries: list[tuple[int, Made | Removed]] = []
        self._acknowledged: list[Any] = []

    def do(self, number: int, operation: Any) -> None:
        """Take the next operation."""
        match operation:
            case Acknowledged(what):
                self._acknowledged.append(what)
            case Written() | Truncated():
                self._changes[operation.file].append((number, operation))
            case Made():
                self._contents[operation.file], self._changes[operation.file] = bytearray(), []
                self._entries.append((number, operation))
            case Removed():
                self._entries.append((number, operation))
            case Synced(file, begun):
                later = [(at, change) for at, change in self._changes[file] if at >= begun]
                for _, change in self._changes[file][: len(self._changes[file]) - len(later)]:
                    _apply(self._contents[file], change)
                self._changes[file] = later
            case FolderSynced(begun):
                while self._entries and self._entries[0][0] < begun:
                    _enter(self._names, self._entries.pop(0)[1])

    def cut(self, moment: int, rng: random.Random) -> Cut:
        """The disk if the power fails now."""
        names, told = dict(self._names), []
        for _, entry in self._entries[: rng.randrange(len(self._entries) + 1)]:
            _enter(names, entry)
        files = {}
        for name, file in names.items():
            how = rng.choice(["lost", "kept", "cut off", "mixed", "torn"])
            content = bytearray(self._contents[file])
            for change in _surviving([change for _, change in self._changes[file]], how, rng):
                _apply(content, change)
            files[name] = bytes(content)
            told.append(f"{name}: {len(self._changes[file])} changes {how}")
        return Cut(moment, ", ".join(told), files, list(self._acknowledged))


def _surviving(
    changes: list[Written | Truncated], how: str, rng: random.Random
) -> Iterator[Written | Truncated]:
    """Those of the changes on their way that reach the disk, as a whole or in part."""
    if how == "lost":
        return
    if how == "cut off":
        changes = changes[: rng.randrange(len(changes) + 1)]
    likelihood = 1.0 if how in ("kept", "cut off") else rng.choice([0.1, 0.5, 0.9])
    for change in changes:
        if how == "torn" and isinstance(change, Written):
            yield from (piece for piece in _sectors(change) if rng.random() < likelihood)
        elif rng.random() < likelihood:
            yield change


def _sectors(change: Written) -> Iterator[Written]:
    at, data = change.at, change.data
    while data:
        size = SECTOR - at % SECTOR
        yield Written(change.file, at, data[:size])
        at, data = at + size, data[size:]


def _apply(content: bytearray, change: Written | Truncated) -> None:
    if isinstance(change, Truncated):
        del content[change.size :]
        content.extend(bytes(change.size - len(content)))
        return
    content.extend(bytes(max(0, change.at - len(content))))
    content[change.at : change.at + len(change.data)] = change.data


def _enter(names: dict[str, int], entry: Made | Removed) -> None:
    if isinstance(entry, Made):
        names[entry.name] = entry.file
    else:
        names.pop(entry.name, None)


@contextmanager
def checkpoints_often() -> Iterator[None]:
    """Have SQLite move its write-ahead log into the file after a few pages."""

    def hook(connection: apsw.Connection) -> None:
        connection.wal_autocheckpoint(PAGES_BETWEEN_CHECKPOINTS)

    apsw.connection_hooks.append(hook)
    try:
        yield
    finally:
        apsw.connection_hooks.remove(hook)
