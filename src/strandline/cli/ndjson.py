"""Many events from lines of JSON, in chunks; each chunk is checked before any of it is written."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import typer

from strandline import (
    AppendRequest,
    AppendResult,
    Event,
    EventIdConflict,
    EventStore,
    InvalidEvent,
    StrandlineError,
)
from strandline.append import MAX_DATA_BYTES, check_size
from strandline.names import RETAGGED

from .event_data import piped_in
from .failure import REFUSED, report, warn
from .options import opened
from .progress import progress
from .screen import facts, for_people, write_json

LineReader = Callable[[bytes], Event | None]


class Chunk(msgspec.Struct):
    """What lines ask for, by their numbers, how many they are, and how many bytes of the file are read with them."""

    requests: list[tuple[int, AppendRequest]]
    lines: int = 0
    consumed: int = 0
    have_times: bool = False
    """Whether events come from a log, which has recorded when they happened."""


class Imported(msgspec.Struct):
    """What became of the lines."""

    lines: int = 0
    written: int = 0
    repeated: int = 0
    refused: int = 0
    skipped: int = 0
    head: int = 0


class _Line(msgspec.Struct):
    type: Any = None
    recorded_at: Any = None


_LINE = msgspec.json.Decoder(_Line)  # made here, by one thread: see domain/codec.py


def read_own(line: bytes) -> Event | None:
    """The event of a line that `read` wrote; None for a retag, which a store writes itself."""
    return None if _is_retag(line) else Event.from_json(line)


def append_lines(url: str, log: str, source: str, chunk: int, read: LineReader, *, as_json: bool) -> None:
    """Append the events that `read` makes of the lines of a file; exits with 1 if a line was refused."""
    done = Imported()
    with _opened(source) as file:
        chunks = _chunks(file, chunk, read)
        with _told_how_far(done):
            # Before the store is opened: where nothing is right, no file is made.
            first = next(chunks, Chunk([]))
        with opened(url, log) as store, progress("appending") as step, _told_how_far(done):
            is_told = False
            for each in chain([first], chunks):
                written = done.written
                for failure in _append(store, each, done):
                    report(failure, as_json=as_json)
                if each.have_times and done.written > written and not is_told:
                    _warn_of_times(as_json=as_json)
                    is_told = True
                step(each.consumed, _size(file))
            done.head = store.head()
    _show(done, as_json=as_json)
    if done.refused:
        raise typer.Exit(REFUSED)


def _is_retag(line: bytes) -> bool:
    return RETAGGED.encode() in line and _looked_at(line).type == RETAGGED


def _has_time(line: bytes) -> bool:
    return b'"recorded_at"' in line and _looked_at(line).recorded_at is not None


def _looked_at(line: bytes) -> _Line:
    try:
        return _LINE.decode(line)
    except (
        msgspec.DecodeError,
        UnicodeError,
        RecursionError,
    ):  # the one that reads the event says what is wrong
        return _Line()


def _warn_of_times(*, as_json: bool) -> None:
    warn(
        "times_change",
        "the events get the time of this append: their recorded_at, the conditions of their appends and the history"
        " of their tags stay in the log that they come from",
        "a rule that looks at recorded_at decides otherwise here. strandline backup copies a file as it is, pg_dump a"
        " PostgreSQL log",
        as_json=as_json,
    )


@contextlib.contextmanager
def _opened(source: str) -> Iterator[BinaryIO]:
    if source == "-":
        yield piped_in()
        return
    with Path(source).open("rb") as file:
        yield file


@contextlib.contextmanager
def _told_how_far(done: Imported) -> Iterator[None]:
    """An error says what is in the log already."""
    try:
        yield
    except StrandlineError as error:
        error.args = (f"{error}; {done.written:,} events were written before it",)
        raise


def _chunks(file: BinaryIO, size: int, read: LineReader) -> Iterator[Chunk]:
    consumed = 0
    lines = ((number, line) for number, line in enumerate(file, 1) if line.strip())
    while listed := list(islice(lines, size)):
        events = [(number, _event(read, number, line)) for number, line in listed]
        requests = [(number, AppendRequest(event)) for number, event in events if event is not None]
        consumed += sum(len(line) for _, line in listed)
        yield Chunk(
            requests, len(listed), consumed, read is read_own and any(_has_time(line) for _, line in listed)
        )


def _append(store: EventStore, chunk: Chunk, done: Imported) -> Iterator[EventIdConflict]:
    outcomes = store.append_many([request for _, request in chunk.requests])
    done.lines += chunk.lines
    done.skipped += chunk.lines - len(chunk.requests)
    for (number, _), outcome in zip(chunk.requests, outcomes, strict=True):
        yield from _count(done, number, outcome)


def _size(file: BinaryIO) -> int:
    try:
        return os.fstat(file.fileno()).st_size
    except (OSError, ValueError):
        return 0


def _event(read: LineReader, number: int, line: bytes) -> Event | None:
    try:
        event = read(line)
        if event is not None:
            check_size((event,), MAX_DATA_BYTES)
    except (TypeError, ValueError) as error:
        raise InvalidEvent(f"line {number:,}: {error}", hint=getattr(error, "hint", "")) from error
    return event


def _count(done: Imported, number: int, outcome: AppendResult | StrandlineError) -> Iterator[EventIdConflict]:
    if isinstance(outcome, AppendResult):
        done.repeated += outcome.duplicate
        done.written += not outcome.duplicate
        return
    if not isinstance(outcome, EventIdConflict):
        raise outcome
    done.refused += 1
    yield EventIdConflict(f"line {number:,}: {outcome}")


def _show(done: Imported, *, as_json: bool) -> None:
    fields = msgspec.structs.asdict(done)
    if for_people(as_json=as_json):
        facts(fields.items())
    else:
        write_json(fields)
