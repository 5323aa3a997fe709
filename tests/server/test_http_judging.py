"""The judge of the load tests finds each kind of breach in notes that were tampered with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from http_judging import judge

from places import Place
from strandline import Event

IDS = [f"00000000-0000-4000-8000-{number:012}" for number in range(1, 9)]
ALL, OF_K = {"items": [{}]}, {"items": [{"tags": ["k:1"]}]}


@pytest.fixture
def kept(new_place: Callable[[str], Place]) -> Place:
    """A log of three appends: positions 1, 2 and 3, and 4."""
    place = new_place("sqlite")
    with place.connect() as store:
        store.append(Event("A", {}, tags=["k:1"], id=IDS[0]))
        store.append([Event("A", {}, id=IDS[1]), Event("A", {}, tags=["k:1"], id=IDS[2])])
        store.append(Event("Once", {}, tags=["once:1"], id=IDS[3]))
    return place


def append(kind: str, outcome: str, begun: int, ended: int, ids: list[str], first: int, last: int) -> Any:
    called = {"begun": begun, "ended": ended, "outcome": outcome}
    return {"kind": kind, "ids": ids, "first": first, "last": last, **called}


def notes() -> dict[str, Any]:
    """Notes that are true."""
    watch = {"kind": "watch", "cuts": 2, "kinds": {"event": 4, "checkpoint": 3}}
    return {
        "one": append("append", "written", 10, 20, IDS[:1], 1, 1),
        "two": append("import", "written", 30, 40, IDS[1:3], 2, 3),
        "once": append("once", "written", 50, 60, IDS[3:4], 4, 4),
        "refused": append("append", "refused", 50, 60, IDS[5:6], 0, 0),
        "again": append("once", "repeated", 70, 80, IDS[6:7], 4, 4),
        "unknown": append("append", "unknown", 50, 60, IDS[4:5], 0, 0),
        "resolved": {"kind": "resolved", "id": IDS[4], "is_there": False},
        "left": {"kind": "left", "ids": IDS[1:3]},
        "read": {"kind": "read", "begun": 65, "query": OF_K, "after": 1, "head": 4, "positions": [3]},
        "repeat": {"kind": "repeat", "status": 200, "answer": {"first": 1}, "expected": {"first": 1}},
        "all": watch | {"query": ALL, "seen": [1, 2, 3, 4], "last": 4},
        "some": watch | {"query": OF_K, "seen": [1, 3], "last": 4},
        "problem": {"kind": "problem", "status": 409, "code": "append_condition_failed"},
    }


BREACHES: dict[str, tuple[str, dict[str, Any]]] = {
    "an acknowledged append is lost": ("one", {"ids": IDS[7:]}),
    "it is somewhere else": ("one", {"first": 2, "last": 2}),
    "it is half there": ("two", {"ids": [IDS[1], IDS[7]]}),
    "a refused append is there": ("refused", {"ids": IDS[:1]}),
    "a repeat that nobody sent before": ("again", {"kind": "append"}),
    "a resolved append is there after all": ("resolved", {"id": IDS[0]}),
    "an append could not be resolved": ("resolved", {"kind": "unresolved"}),
    "an append is half there, and nobody knows": ("left", {"ids": [IDS[1], IDS[7]]}),
    "positions do not follow time": ("two", {"begun": 62, "ended": 64}),
    "a read does not see what was acknowledged": ("read", {"head": 3}),
    "a read lacks an event": ("read", {"positions": []}),
    "a read has an event too many": ("read", {"positions": [2, 3]}),
    "a read failed": ("read", {"kind": "read error", "code": "internal_error"}),
    "a repeat has another answer": ("repeat", {"answer": {"first": 2}}),
    "a stream has a gap": ("all", {"seen": [1, 2, 4]}),
    "a stream repeats": ("all", {"seen": [1, 2, 2, 3, 4]}),
    "a stream is out of order": ("all", {"seen": [1, 3, 2, 4]}),
    "a stream has what it did not ask for": ("some", {"seen": [1, 2, 3]}),
    "a stream did not reach the end": ("some", {"seen": [1], "last": 2}),
    "a stream sent something unknown": ("all", {"kinds": {"message": 1}}),
    "an error that is not documented": ("problem", {"code": "internal_error"}),
}


def write(folder: Path, noted: dict[str, Any]) -> None:
    (folder / "writer-0.ndjson").write_text("".join(json.dumps(note) + "\n" for note in noted.values()))


def test_notes_that_are_true_are_accepted(kept: Place, tmp_path: Path) -> None:
    write(tmp_path, notes())
    verdict = judge(tmp_path, kept, had_faults=False)
    assert (verdict.written, verdict.refused, verdict.unknown, verdict.reads, verdict.watched) == (
        3,
        1,
        1,
        1,
        6,
    )


@pytest.mark.parametrize("breach", BREACHES)
def test_a_breach_is_found(kept: Place, tmp_path: Path, breach: str) -> None:
    which, change = BREACHES[breach]
    noted = notes()
    noted[which] |= change
    write(tmp_path, noted)
    with pytest.raises(AssertionError):
        judge(tmp_path, kept, had_faults=False)


def test_what_should_be_there_once_and_is_there_twice_is_found(kept: Place, tmp_path: Path) -> None:
    with kept.connect() as store:
        store.append(Event("Once", {}, tags=["once:1"]))
    write(tmp_path, {"one": notes()["one"]})
    with pytest.raises(AssertionError, match="twice"):
        judge(tmp_path, kept, had_faults=False)
