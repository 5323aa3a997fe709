"""A damaged file: each use of it gives an answer or an error of ours with a hint, and none goes on for ever."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

import strandline
from reliability import damage
from strandline import CorruptLog, Event, EventStore

# Each ended in a bare KeyError, ValueError, TypeError, OverflowError or the like before such errors were translated.
FOUND = (4, 8, 13, 23, 27, 34, 41, 47, 65, 85, 105, 113, 114, 131, 135, 165, 167, 169, 182)


def used(folder: Path, seeds: list[int]) -> dict[int, list[str]]:
    """What went wrong for each seed. A process that hangs or dies names the seed that it was at."""
    done = subprocess.run(
        [sys.executable, damage.__file__, str(folder), *map(str, seeds)],
        capture_output=True,
        text=True,
        check=False,
    )
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, (told[-1:], done.stderr[-3_000:])
    wrong = {seed: [what, *errors] for seed, what, errors in told if isinstance(errors, list)}
    assert wrong.keys() == set(seeds)
    return {seed: errors for seed, errors in wrong.items() if len(errors) > 1}


def test_damage_that_once_ended_in_bare_errors_is_told(tmp_path: Path) -> None:
    assert used(tmp_path, list(FOUND)) == {}


@pytest.mark.long
@pytest.mark.parametrize("part", range(12))
def test_any_damage_is_told(tmp_path: Path, part: int) -> None:
    first = 1_000 + 200 * part
    assert used(tmp_path, list(range(first, first + 200))) == {}


def changed(path: Path, statement: str) -> EventStore:
    """A log of three appends in which a statement changed something."""
    with strandline.connect(path) as store:
        for _ in range(3):
            store.append(Event("A", {}, tags=["a"], metadata={"k": "v"}))
    with strandline.connect(path) as store:
        database = store.engine._connection.database  # type: ignore[attr-defined]
        database.execute("pragma ignore_check_constraints = on")
        database.execute(statement)
    return strandline.connect(path)


@pytest.mark.parametrize("span", [-5, 0, -(2**40)])
def test_recorded_appends_that_go_back_end(tmp_path: Path, span: int) -> None:
    with changed(tmp_path / "log.db", f"update event set span = {span} where position = 2") as store:
        with pytest.raises(CorruptLog, match="the append at 2"):
            list(islice(store.appends(), 10))
        assert store.head() == 3


@pytest.mark.parametrize(
    ("statement", "field"),
    [
        ("update event set id = x'ffff' where position = 2", "id"),
        ("update event set recorded_at = 4611686018427387904 where position = 2", "recorded_at"),
        ("update event set metadata = x'ff' where position = 2", "metadata"),
    ],
)
def test_a_damaged_field_names_its_event(tmp_path: Path, statement: str, field: str) -> None:
    with changed(tmp_path / "log.db", statement) as store:
        _, event, _ = store.read()
        with pytest.raises(CorruptLog, match="event 2 is damaged") as told:
            getattr(event, field)
        assert "strandline check" in told.value.hint
