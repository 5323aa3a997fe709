"""The manifest: what a lake consists of. A file that it does not list is no part of the lake, wherever it lies."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Literal

import msgspec

from ...errors import InvalidInput, SchemaMismatch
from .kinds import Column
from .task import BRONZE

VERSION = 1
Format = Literal["parquet", "delta"]


class File(msgspec.Struct, frozen=True):
    """A file of a table, and the positions of the first and the last event in it."""

    path: str
    first: int
    last: int
    rows: int
    bytes: int


def commit_of(file: File) -> int:
    """The commit that a file came with."""
    return int(file.path.rpartition("/")[2].split("-")[2].partition(".")[0])


class Batch(msgspec.Struct, frozen=True):
    """The events `(after, until]`, written together; their tags show every retag up to `as_of`."""

    after: int
    until: int
    as_of: int


class Silver(msgspec.Struct, frozen=True):
    """The table of one event type. `cls` and `version` are those of the class that its columns come from."""

    folder: str
    columns: list[Column]
    cls: str | None
    version: int
    files: list[File] = []


class Gold(msgspec.Struct, frozen=True):
    """The table of a projection, folded from the events up to `as_of`."""

    folder: str
    projection: str
    version: str
    as_of: int
    files: list[File] = []


class Change(msgspec.Struct, frozen=True):
    """What a commit does to a table: files that come, and files that go; all that were there, if `replaces`."""

    add: list[File] = []
    remove: list[File] = []
    replaces: bool = False


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """A lake. `changes` are those of its last commit, until all files are in their places."""

    manifest: int = VERSION
    format: Format
    log: str
    commit: int = 0
    head: int = 0
    fingerprint: str = ""
    batches: list[Batch] = []
    bronze: list[File] = []
    silver: dict[str, Silver] = {}
    gold: dict[str, Gold] = {}
    changes: dict[str, Change] = {}

    def tables(self) -> Iterator[tuple[str, list[File]]]:
        """The folder and the files of every table."""
        yield BRONZE, self.bronze
        for silver in self.silver.values():
            yield silver.folder, silver.files
        for gold in self.gold.values():
            yield gold.folder, gold.files

    def check(self) -> None:
        """Refuse what contradicts itself: every event is in one batch and in one file of bronze."""
        for spans in (
            [(batch.after, batch.until) for batch in self.batches],
            [(file.first - 1, file.last) for file in self.bronze],
        ):
            edges = [(0, 0), *spans, (self.head, self.head)]
            if any(one[1] != other[0] for one, other in itertools.pairwise(edges)):
                raise InvalidInput("the lake's manifest contradicts itself", hint=ANEW)


ANEW = "restore the lake, or export into a new folder"

_DECODER = msgspec.json.Decoder(Manifest)


class _Version(msgspec.Struct):
    manifest: int


_ITS_VERSION = msgspec.json.Decoder(_Version)


def encode(manifest: Manifest) -> bytes:
    """The manifest as JSON, to be read by people too."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1)


def decode(data: bytes) -> Manifest:
    """The manifest that was written."""
    try:
        version = _ITS_VERSION.decode(data).manifest
        if version != VERSION:
            raise SchemaMismatch(
                f"the lake's manifest has version {version}, this program knows {VERSION}",
                hint="use the program that wrote it, or export into a new folder",
            )
        manifest = _DECODER.decode(data)
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"the lake's manifest cannot be read: {error}", hint=ANEW) from error
    manifest.check()
    return manifest
