"""Events in a file: whole lines, in order, on disk before the checkpoint moves."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from follow.following import some
from strandline import Event, EventStore, Query, from_cloudevent
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


def test_a_file_of_somebody_else_is_not_cut(store: EventStore, path: Path) -> None:
    store.append(some("a"))
    path.write_text("line\nno newline")
    worker = store.outbox("topic", None, "archive", NdjsonFile(path), attempts=1)
    worker.catch_up()
    assert path.read_text() == "line\nno newline"
    assert "none of ours" in worker.dead_letters()[0].error


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


def test_a_folder_that_is_missing_is_a_dead_letter(store: EventStore, tmp_path: Path) -> None:
    store.append(some("a"))
    file = NdjsonFile(tmp_path / "missing" / "x.ndjson")
    worker = store.outbox("topic", None, "archive", file, attempts=1)
    worker.catch_up()
    assert "FileNotFoundError" in worker.dead_letters()[0].error
    assert "x.ndjson" in repr(file)
