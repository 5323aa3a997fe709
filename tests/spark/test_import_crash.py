"""An import that is killed, wherever, goes on where it was when it is run again."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from staging import events_in, split, stage_lines

from places import Place
from strandline import Event, Query
from strandline.engine.maintenance import check_log
from strandline.spark.importing.appending import append_in_order
from strandline.spark.importing.origin import origins
from strandline.spark.staging.piece import Piece

CRASH = Path(__file__).with_name("import_crash.py")
EVENTS = 4_300


def prepared(folder: Path) -> tuple[list[bytes], list[Piece], Path]:
    """Lines with and without ids, staged in two splits of a file."""
    lines = [
        Event("Counted", n, tags=[f"n:{n % 9}"]).to_json().encode()
        if n % 3
        else b'{"type": "Counted", "data": %d}' % n
        for n in range(EVENTS)
    ]
    pieces = [
        *stage_lines(split(lines[:1_900]), folder),
        *stage_lines(split(lines[1_900:], block=1_900), folder),
    ]
    told = folder / "pieces.json"
    told.write_bytes(msgspec.json.encode(pieces))
    return lines, pieces, told


def started(told: Path, place: Place, when: str, number: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, str(CRASH), str(told), *place.arguments, when, str(number)])


def expect_each_once_in_order(place: Place) -> None:
    with place.connect() as store:
        assert [event.json() for event in store.read(Query.types("Counted"))] == list(range(EVENTS))
    assert check_log(str(place.url), **place.options).problems == []


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_at_each_commit_it_goes_on_there(kept: Place, tmp_path: Path, when: str) -> None:
    _, pieces, told = prepared(tmp_path)
    for number in (1, 2):  # of what was left each time
        assert started(told, kept, when, number).wait() == -signal.SIGKILL
    with kept.connect() as store:
        before = store.head()
        done = append_in_order(store, lambda: events_in(origins(pieces, None)), EVENTS)
        assert (before, done.written) == ((1_000, 3_300) if when == "before" else (3_000, 1_300))
        assert done.repeated == before
    expect_each_once_in_order(kept)


def test_killed_at_any_moment_while_others_write_it_goes_on(kept: Place, tmp_path: Path) -> None:
    _, pieces, told = prepared(tmp_path)
    rng = random.Random(6)
    with kept.connect() as store:
        store.append(Event("Live", 0))
        for _ in range(3):
            process = started(told, kept, "never", 0)
            time.sleep(rng.uniform(0.2, 0.9))
            process.kill()
            process.wait()
            store.append(Event("Live", 0))
        append_in_order(store, lambda: events_in(origins(pieces, None)), EVENTS)
    expect_each_once_in_order(kept)
