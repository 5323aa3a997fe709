"""Events in a file: whole lines, in order, on disk before the checkpoint moves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import strandline
from follow.following import some
from strandline import Event, EventStore, Query, Unavailable, from_cloudevent
from strandline.follow import NdjsonFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.ndjson"


def positions(path: Path) -> list[int]:
    return [json.loads(line)["position"] for line in path.read_bytes().splitlines()]


def test_events_are_lines_with_their_ids(store: EventStore, path: Path) -> None:
    written = [Event("Happened", data, tags=["a"]) for data in ({"text": "line\nbreak ü"}, b"\xff", 1)]
    store.append([*written, *some("b")])
    worker = store.outbox("topic", Query.tag("a"), "archive", NdjsonFile(path, source="urn:bank"), batch=2)
    worker.catch_up()
    store.append(some("a"))
    worker.catch_up()
    assert positions(path) == [1, 2, 3, 5]
    lines = path.read_bytes().splitlines()
    assert [from_cloudevent(line).data for line in lines[:3]] == [event.data for event in written]
    assert [json.loads(line)["id"] for line in lines[:3]] == [str(event.id) for event in written]
    assert json.loads(lines[0])["source"] == "urn:bank"


def test_a_crash_between_publishing_and_the_checkpoint_repeats_a_batch_with_the_same_ids(
    store: EventStore, path: Path
) -> None:
    class Crash(BaseException): ...

    store.append(some("a", count=4))
    file, crashes = NdjsonFile(path), [Crash()]

    def publish(events: Any) -> None:
        file(events)
        if crashes:
            raise crashes.pop()

    worker = store.outbox("topic", None, "archive", publish, batch=2, lease=0.1)
    with pytest.raises(Crash):
        worker.catch_up()
    worker.catch_up()
    assert positions(path) == [1, 2, 1, 2, 3, 4]
    lines = path.read_bytes().splitlines()
    assert lines[0] == lines[2]


@pytest.mark.parametrize("cut", [1, 20, -1])
def test_a_line_that_a_crash_cut_off_is_replaced(store: EventStore, path: Path, cut: int) -> None:
    store.append([Event("Happened", {"text": "x" * 200_000}), *some("a")])
    worker = store.outbox("topic", None, "archive", NdjsonFile(path))
    worker.catch_up()
    whole = path.read_bytes()
    first = whole.splitlines(keepends=True)[0]
    path.write_bytes(whole + first[:cut])
    worker.follower.reset(0)
    worker.catch_up()
    assert path.read_bytes() == whole * 2


def test_a_file_of_another_program_is_not_cut(store: EventStore, path: Path) -> None:
    store.append(some("a"))
    path.write_text("line\nno newline")
    worker = store.outbox("topic", None, "archive", NdjsonFile(path), attempts=1)
    with pytest.raises(Unavailable, match="not ours") as stop:
        worker.catch_up()
    assert "truncate --size=5" in stop.value.hint
    assert path.read_text() == "line\nno newline"
    assert (worker.dead_letters(), worker.status().position) == ([], 0)


SECTOR = 512


def after_power_cuts(batch: bytes) -> Iterator[bytes]:
    """What may be on the disk of a batch that was not synced: nothing, zeros, and sectors in any place."""
    sectors = [batch[start : start + SECTOR] for start in range(0, len(batch), SECTOR)]
    yield from (b"", b"\0" * len(batch), b"\0" * 7, batch, batch[:-1], batch[: len(batch) // 2])
    for lost in range(len(sectors)):
        yield b"".join(b"\0" * SECTOR if index == lost else each for index, each in enumerate(sectors))
    yield b"".join(reversed(sectors))
    newline = batch.index(b"\n") + 1
    yield batch[newline:]  # whole lines, but not all of the batch
    yield batch[:newline]
    yield batch[:newline] + b"\0" * 100 + b"\n"


def test_whatever_a_power_cut_leaves_of_a_batch_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "events.ndjson"
    with strandline.connect("memory:") as store:
        store.append([Event("Happened", {"text": "x" * 300}) for _ in range(6)])
        first, second = list(store.read(until=3)), list(store.read(after=3))
        NdjsonFile(path)(first)
        whole, known = path.read_bytes(), (tmp_path / "events.ndjson.end").read_bytes()
        NdjsonFile(path)(second)
        both, moved = path.read_bytes(), (tmp_path / "events.ndjson.end").read_bytes()
        batch, states = both[len(whole) :], 0
        (changed,) = {
            index // 4096 for index in range(len(moved)) if moved[index] != (known + bytes(8192))[index]
        }
        place = 4096 * changed
        for left in after_power_cuts(batch):
            for torn in (0, 1, 12, 23, 24):
                path.write_bytes(whole + left)
                ends = bytearray(known.ljust(len(moved), b"\0"))
                if left == batch or not torn:  # the length moves when the batch is on the disk
                    ends[place : place + torn] = moved[place : place + torn]
                    (tmp_path / "events.ndjson.end").write_bytes(ends)
                    NdjsonFile(path)(second)
                    is_moved = ends[place : place + 24] == moved[place : place + 24]
                    twice = both + batch if is_moved else both
                    assert path.read_bytes() == twice, (left[:40], torn)
                    states += 1
        assert states > 15


def test_killed_at_any_moment_it_has_whole_batches(tmp_path: Path) -> None:
    """Each batch has five events; a run that is killed between two system calls leaves whole batches or is cut back."""
    program = """
import os, signal, sys, strandline
from strandline.follow import NdjsonFile
calls = int(sys.argv[2])
def dying(call):
    def maybe(*arguments):
        global calls
        calls -= 1
        if not calls:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments)
    return maybe
with strandline.connect("memory:") as store:
    store.append([strandline.Event("Happened", number) for number in range(10)])
    events = list(store.read())
    for name in ("write", "pwrite", "fsync", "ftruncate", "open", "close", "lseek"):
        setattr(os, name, dying(getattr(os, name)))
    for batch in (events[:5], events[5:]):
        NdjsonFile(sys.argv[1])(batch)
"""
    path, number, codes = tmp_path / "events.ndjson", 0, []
    with strandline.connect("memory:") as store:
        store.append(some("a"))
        (event,) = store.read()
        while not codes or codes[-1]:
            number += 1
            for each in tmp_path.iterdir():
                each.unlink()
            done = subprocess.run([sys.executable, "-c", program, str(path), str(number)], check=False)
            codes.append(done.returncode)
            NdjsonFile(path)([event])
            lines = positions(path)
            assert lines in ([1], [*range(1, 6), 1], [*range(1, 11), 1]), (number, lines)
    assert codes[:-1] == [-signal.SIGKILL] * (number - 1)
    assert number > 15


@pytest.mark.parametrize("change", ["cut", "rotate", "empty", "replace", "no length", "damaged length"])
def test_a_file_that_its_reader_changed_goes_on_after_its_last_line(path: Path, change: str) -> None:
    with strandline.connect("memory:") as store:
        store.append(some("a", count=4))
        *first, last = store.read()
        NdjsonFile(path)(first)
        ends = path.with_name("events.ndjson.end")
        match change:
            case "cut":
                path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
            case "rotate":
                path.rename(path.with_name("events.1"))
            case "empty":
                os.truncate(path, 0)
            case "replace":
                path.write_bytes(b"{}\n" * 1_000)
            case "no length":
                ends.unlink()
            case "damaged length":
                ends.write_bytes(os.urandom(8192))
        before = path.read_bytes() if path.exists() else b""
        NdjsonFile(path)([last])
        assert path.read_bytes().startswith(before)
        assert path.read_bytes()[len(before) :].count(b"\n") == 1
        path.write_bytes(path.read_bytes() + b"\0" * 9)  # and its length is known again
        NdjsonFile(path)([last])
        assert path.read_bytes()[len(before) :].count(b"\n") == 2
        assert b"\0" not in path.read_bytes()


def test_a_batch_that_cannot_be_written_leaves_nothing(
    store: EventStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.append(some("a", count=3))
    file = NdjsonFile(path)
    sync, failures = os.fsync, [OSError("disk full")]

    def fsync(descriptor: int) -> None:
        if failures:
            raise failures.pop()
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    store.outbox("topic", None, "archive", file, backoff=0).catch_up()
    assert positions(path) == [1, 2, 3]


def test_two_topics_may_share_a_file(store: EventStore, path: Path) -> None:
    store.append([*some("a"), *some("b")])
    for topic in ("a", "b"):
        store.outbox(topic, Query.tag(topic), "archive", NdjsonFile(path)).catch_up()
    assert positions(path) == [1, 2]


def test_a_folder_that_is_missing_stops_the_outbox(store: EventStore, tmp_path: Path) -> None:
    store.append(some("a"))
    file = NdjsonFile(tmp_path / "missing" / "x.ndjson")
    worker = store.outbox("topic", None, "archive", file, attempts=1)
    with pytest.raises(Unavailable, match="No such file or directory"):
        worker.catch_up()
    assert (worker.dead_letters(), worker.status().position) == ([], 0)
    assert "x.ndjson" in repr(file)


def test_a_pipe_gets_the_lines_too(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with strandline.connect("memory:") as store:
        store.append(some("a"))
        store.outbox("topic", None, "pipe", NdjsonFile(tmp_path / "pipe")).catch_up()
        assert json.loads(os.read(reader, 65_536))["position"] == 1
    os.close(reader)
    assert [each.name for each in tmp_path.iterdir()] == ["pipe"]
