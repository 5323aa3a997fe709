"""Publishing to a file: one CloudEvent per line, on disk before the checkpoint moves."""

from __future__ import annotations

import contextlib
import os
import stat
import struct
from collections.abc import Iterator, Sequence
from zlib import crc32

from ..cloudevent import to_cloudevent
from ..cloudevent.outgoing import SOURCE
from ..errors import Unavailable
from ..event import SequencedEvent, encode_sorted

BLOCK = 65_536
TAIL = 4_096


class NdjsonFile:
    """Appends events to a file, as CloudEvents. A batch is written as a whole or not at all.

    `<path>.end` keeps the length of the file after each batch. Whatever a crash left behind it is cut off before the
    next batch is written; its events are delivered again.
    """

    def __init__(self, path: str | os.PathLike[str], *, source: str = SOURCE) -> None:
        self.path = os.path.abspath(path)
        self._source = source

    def __call__(self, events: Sequence[SequencedEvent]) -> None:
        """Append them, and wait until they are on disk."""
        lines = b"".join(encode_sorted(to_cloudevent(event, source=self._source)) + b"\n" for event in events)
        try:
            with _locked(self.path) as file:
                if stat.S_ISREG(os.fstat(file).st_mode):
                    self._append(file, lines)
                else:  # a pipe or a device has no end to keep
                    _write(file, lines)
        except OSError as error:
            raise Unavailable(
                f"{self.path} cannot be written: {error}",
                hint="make room, or make the folder and the file writable, then run the outbox again",
            ) from error

    def __repr__(self) -> str:
        return f"NdjsonFile({self.path!r})"

    def _append(self, file: int, lines: bytes) -> None:
        with _opened(f"{self.path}.end") as sidecar:
            end = KnownEnd(file, sidecar)
            length = end.length
            if length is None:
                length = _end_of_lines(file, self.path)
                end.move(length)
                _sync_folder(os.path.dirname(self.path))
            try:
                os.ftruncate(file, length)
                os.lseek(file, length, os.SEEK_SET)
                _write(file, lines)
                os.fsync(file)
                end.move(length + len(lines))
            except BaseException:
                with contextlib.suppress(OSError):  # then the next batch cuts it off
                    os.ftruncate(file, length)
                raise


class KnownEnd:
    """The length of a file as a second file keeps it, in two places in turn: one is whole if a crash tears the other.

    A place has a number that grows, the length, a checksum of the last bytes before it, and a checksum of all three. If
    the bytes differ, a reader of the file has cut, moved or changed it, and the length is unknown.
    """

    _PLACE = struct.Struct("<QQI")
    _SUM = struct.Struct("<I")
    _APART = 4_096  # so that the places are in different blocks of the disk

    def __init__(self, file: int, sidecar: int) -> None:
        self._file = file
        self._sidecar = sidecar
        places = [place for place in map(self._place, (0, 1)) if place is not None]
        self._number, length, tail = max(places, default=(0, 0, 0))
        size = os.fstat(file).st_size
        self.length = length if places and length <= size and self._tail(length) == tail else None

    def move(self, length: int) -> None:
        """Keep another length, and wait until it is on disk."""
        self._number += 1
        place = self._PLACE.pack(self._number, length, self._tail(length))
        _write_at(self._sidecar, place + self._SUM.pack(crc32(place)), self._APART * (self._number % 2))
        os.fsync(self._sidecar)

    def _place(self, index: int) -> tuple[int, int, int] | None:
        found = os.pread(self._sidecar, self._PLACE.size + self._SUM.size, self._APART * index)
        place, total = found[: self._PLACE.size], found[self._PLACE.size :]
        if len(place) < self._PLACE.size or total != self._SUM.pack(crc32(place)):
            return None
        number, length, tail = self._PLACE.unpack(place)
        return number, length, tail

    def _tail(self, length: int) -> int:
        start = max(0, length - TAIL)
        return crc32(os.pread(self._file, length - start, start))


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int]:
    """The open file, which is made if need be."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        yield file
    finally:
        os.close(file)


@contextlib.contextmanager
def _locked(path: str) -> Iterator[int]:
    """The open file, for one writer at a time."""
    import fcntl  # not everywhere, and nothing else here needs it

    with _opened(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def _end_of_lines(file: int, path: str) -> int:
    """Where the last whole line ends."""
    size = end = os.fstat(file).st_size
    tail = b""
    while end:
        start = max(0, end - BLOCK)
        tail = os.pread(file, end - start, start) + tail
        end = start
        newline = tail.rfind(b"\n")
        if newline >= 0:
            end, tail = start + newline + 1, tail[newline + 1 :]
            break
    if end < size and not tail.startswith(b"{"):
        raise Unavailable(
            f"{path} ends in the middle of a line that is not ours",
            hint=f"cut the file after its last good line: truncate --size={end} FILE. Or publish to another file",
        )
    return end


def _write(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def _write_at(file: int, data: bytes, at: int) -> None:
    rest = memoryview(data)
    while rest:
        written = os.pwrite(file, rest, at)
        at, rest = at + written, rest[written:]


def _sync_folder(path: str) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
