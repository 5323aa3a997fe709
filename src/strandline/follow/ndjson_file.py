"""Publishing to a file: one CloudEvent per line, on disk before the checkpoint moves."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence

from ..cloudevent import to_cloudevent
from ..cloudevent.outgoing import SOURCE
from ..errors import InvalidInput
from ..event import SequencedEvent, encode_sorted

BLOCK = 65_536


class NdjsonFile:
    """Appends events to a file, as CloudEvents. A batch is written as a whole or not at all.

    A line that a crash cut off is removed before the next one is written; its event is delivered again.
    """

    def __init__(self, path: str | os.PathLike[str], *, source: str = SOURCE) -> None:
        self.path = os.path.abspath(path)
        self._source = source

    def __call__(self, events: Sequence[SequencedEvent]) -> None:
        """Append them, and wait until they are on disk."""
        lines = b"".join(encode_sorted(to_cloudevent(event, source=self._source)) + b"\n" for event in events)
        is_new = not os.path.exists(self.path)
        with _locked(self.path) as file:
            end = _end_of_lines(file, self.path)
            try:
                os.ftruncate(file, end)
                _write(file, lines, end)
                os.fsync(file)
            except BaseException:
                os.ftruncate(file, end)
                raise
        if is_new:
            _sync_folder(os.path.dirname(self.path))

    def __repr__(self) -> str:
        return f"NdjsonFile({self.path!r})"


@contextlib.contextmanager
def _locked(path: str) -> Iterator[int]:
    """The open file, for one writer at a time."""
    import fcntl  # not everywhere, and nothing else here needs it

    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file
    finally:
        os.close(file)


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
        raise InvalidInput(
            f"{path} ends in the middle of a line that is none of ours", hint="publish to another file"
        )
    return end


def _write(file: int, data: bytes, at: int) -> None:
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
