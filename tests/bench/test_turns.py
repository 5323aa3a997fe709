"""A peer that fails is a result of its own; what of ours fails ends the run."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.case import Measured
from bench.lab import Lab, Settings
from bench.plan import Turn, take
from bench.processes import Workers


def broken(lab: Lab) -> Measured:
    raise OSError("database corrupted")


def turn(store: str) -> Turn:
    return Turn("cycle@64", store, 1, 0, "", broken)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab({}, Settings(events=0, clients=(1,), seconds=0, rounds=2), tmp_path)


def test_a_peer_that_fails_is_told_and_the_run_goes_on(lab: Lab) -> None:
    measurement = take(turn("umadb-fast"), lab)
    assert measurement.measured is None
    assert measurement.absent == "it failed in round 2: OSError: database corrupted"


def test_what_of_ours_fails_ends_the_run(lab: Lab) -> None:
    with pytest.raises(OSError, match="corrupted") as failed:
        take(turn("strandline-pg"), lab)
    assert failed.value.__notes__ == ["while cycle@64 was measured on strandline-pg"]


def test_what_fails_in_another_process_is_told_here(tmp_path: Path) -> None:
    workers = Workers()
    missing = str(tmp_path / "nowhere" / "log.db")
    try:
        with pytest.raises(RuntimeError, match=r"^\w+: .*nowhere"):
            workers.ask([{"do": "connect", "store": "strandline", "address": missing}])
    finally:
        workers.close()
