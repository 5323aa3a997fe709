"""The folder that a lake is in: who may write there, what lies where, and how a commit takes effect.

A commit is the moment in which a manifest replaces the one before. All that follows it (files that go, files that come
out of staging) is done again by whoever comes next, so it does not matter where a process ends.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ...errors import InvalidInput, NotFound, Unavailable
from .files import Staged, sync
from .manifest import ANEW, Change, File, Manifest, decode, encode
from .steps import passed

MANIFEST = "_strandline.json"
LOCK = "_lock"
STAGING = "_staging"
READY = "ready"
DATA = ("bronze", "silver", "gold")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


class Folder:
    """A lake's folder."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = _local(path)
        self.staging = os.path.join(self.path, STAGING)

    def at(self, *names: str) -> str:
        """A place in it."""
        return os.path.join(self.path, *names)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Be the only one who writes to the lake; the system lets go of it for a process that ends."""
        try:
            os.makedirs(self.path, exist_ok=True)
            descriptor = os.open(self.at(LOCK), os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise InvalidInput(
                f"{self.path} cannot be a lake: {error.strerror}",
                hint="name a folder that you may write to, or that does not exist yet",
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise Unavailable(
                f"another export is writing to {self.path}", hint="wait for it, then run this again"
            ) from None
        try:
            yield
        finally:
            os.close(descriptor)

    def read(self) -> Manifest | None:
        """The manifest, None if there is none."""
        try:
            with open(self.at(MANIFEST), "rb") as file:
                return decode(file.read())
        except FileNotFoundError:
            return None

    def existing(self) -> Manifest:
        """The manifest of a lake that must be there."""
        manifest = self.read()
        if manifest is None:
            raise NotFound(f"there is no lake at {self.path}", hint="make one: strandline.spark.export(…)")
        return manifest

    def save(self, manifest: Manifest) -> None:
        """Replace the manifest, at once and for good."""
        new = self.at(f"{MANIFEST}.new")
        with open(new, "wb") as file:
            file.write(encode(manifest))
            file.flush()
            os.fsync(file.fileno())
        passed("the new manifest is written")
        os.replace(new, self.at(MANIFEST))
        sync(self.path)

    def stage(self, files: Iterable[Staged]) -> list[Staged]:
        """Put what tasks wrote under the names that it will have in the lake, still in staging."""
        listed = list(files)
        for file in listed:
            if not os.path.exists(file.staged):
                raise InvalidInput(
                    f"the executors wrote files that are not to be seen in {self.path} here",
                    hint="choose a folder that the driver and all executors share",
                )
            _move(file.staged, os.path.join(self.staging, READY, file.path))
        _sync_folders(os.path.join(self.staging, READY, file.path) for file in listed)
        return listed

    def settle(self, changes: dict[str, Change]) -> None:
        """Carry out the changes of a commit; again is harmless."""
        files = [file for change in changes.values() for file in change.remove]
        for file in files:
            _remove(self.at(file.path))
        passed("old files are removed")
        self.arrive(file for change in changes.values() for file in change.add)
        _sync_folders(self.at(file.path) for file in files)

    def arrive(self, files: Iterable[File]) -> None:
        """Move files out of staging."""
        listed = list(files)
        for number, file in enumerate(listed):
            staged = os.path.join(self.staging, READY, file.path)
            if os.path.exists(staged):
                _move(staged, self.at(file.path))
            if number == 0:
                passed("the first file is in its place")
        _sync_folders(self.at(file.path) for file in listed)

    def clean(self) -> None:
        """Remove what is staged: it belongs to no commit, or has arrived."""
        shutil.rmtree(self.staging, ignore_errors=True)

    def whereabouts(self, file: File) -> str:
        """Where a file is: in its place, or in staging if the process ended before it was moved."""
        place = self.at(file.path)
        staged = os.path.join(self.staging, READY, file.path)
        return staged if not os.path.exists(place) and os.path.exists(staged) else place

    def refuse_foreign(self) -> None:
        """A new lake begins in a folder of its own."""
        known = {LOCK, STAGING, f"{MANIFEST}.new"}
        foreign = sorted(set(os.listdir(self.path)) - known)
        if foreign:
            raise InvalidInput(
                f"{self.path} has other files ({', '.join(foreign[:3])}) and no manifest of a lake",
                hint="export into an empty or a new folder",
            )

    def refuse_broken(self, manifest: Manifest) -> None:
        """Every file of the lake is there, whole; and nothing else that a plain reader would take for a part of it."""
        listed = {file.path: file for _, files in manifest.tables() for file in files}
        for path, file in listed.items():
            if _size(self.at(path)) != file.bytes:
                raise InvalidInput(f"the lake at {self.path} lacks {path}, or a part of it", hint=ANEW)
        foreign = sorted(path for path in self._visible() if path not in listed)
        if foreign:
            raise InvalidInput(
                f"{foreign[0]} is in the lake at {self.path} and does not belong there",
                hint="move it elsewhere: readers would take it for a part of the lake",
            )

    def _visible(self) -> Iterator[str]:
        for table in DATA:
            for place, folders, files in os.walk(self.at(table)):
                folders[:] = [name for name in folders if not name.startswith(("_", "."))]
                for name in files:
                    if not name.startswith(("_", ".")):
                        yield os.path.relpath(os.path.join(place, name), self.path)


def _local(path: str | os.PathLike[str]) -> str:
    if not isinstance(path, (str, os.PathLike)):
        raise InvalidInput(
            f"a lake is named by the path of its folder, not by a {type(path).__name__}",
            hint='for example export(spark, url, "lake")',
        )
    text = os.fsdecode(path)
    text = text.removeprefix("file://") if text.startswith("file:///") else text
    if not text or "\0" in text:
        raise InvalidInput(f"{text!r} names no folder", hint='for example export(spark, url, "lake")')
    if _SCHEME.match(text):
        raise InvalidInput(
            f"a lake is a folder of this machine or a mounted one, not {text.partition(':')[0]}:…",
            hint="mount the bucket; or export into a folder and copy it: the data first, then _strandline.json",
        )
    return os.path.abspath(text)


def _move(source: str, target: str) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    os.replace(source, target)


def _remove(path: str) -> None:
    try:
        os.remove(path)
    except FileNotFoundError:
        return


def _size(path: str) -> int | None:
    try:
        return os.path.getsize(path)
    except OSError:
        return None


def _sync_folders(paths: Iterable[str]) -> None:
    for folder in {os.path.dirname(path) for path in paths}:
        if os.path.isdir(folder):
            sync(folder)
