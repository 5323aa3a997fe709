"""An export may end anywhere: readers see nothing twice, and the next export makes the lake whole."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from lake_story import FIRST, SECOND, begin, go_on
from lakes import bronze, equals_log, gold, logged, rows, silver
from local_jobs import export

from places import Place
from strandline.spark import lake_files

STEPS = {
    "parquet": {"old files are removed"},
    "delta": {"a Delta table is committed"},
}
COMMON = {
    "the lake is in order",
    "tables are staged anew",
    "bronze and known types are staged",
    "new types are staged",
    "files are ready",
    "the new manifest is written",
    "the manifest is replaced",
    "the first file is in its place",
    "files are in their places",
}


@pytest.mark.parametrize("format", ["parquet", pytest.param("delta", marks=pytest.mark.long)])
def test_an_export_that_is_killed_at_any_step_is_made_whole_by_the_next(
    tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(os, "fsync", lambda _: None)  # no power cuts here
    place, start, killed = Place(tmp_path / "log.db"), tmp_path / "start", tmp_path / "killed"
    begin(place)
    export(place, start, format, **FIRST)
    go_on(place)
    whole = tmp_path / "whole"
    shutil.copytree(start, whole)
    export(place, whole, format, **SECOND)
    killed.mkdir()
    run = subprocess.run(
        [
            sys.executable,
            str(Path(__file__).with_name("lake_crash.py")),
            *place.arguments,
            format,
            start,
            killed,
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert run.returncode == 0, run.stderr

    passed = {path.read_text() for path in killed.glob("*.step")}
    assert passed == COMMON | STEPS[format]
    for lake in sorted(path for path in killed.iterdir() if path.is_dir()):
        sees_nothing_twice(lake, place)
        export(place, lake, format, **SECOND)
        equals_log(lake, place)
        for type in ("CourseDefined", "StudentSubscribed", "Paid", "odd/type"):
            assert silver(lake, type) == silver(whole, type)
        assert gold(lake, "Course") == gold(whole, "Course")


def sees_nothing_twice(lake: Path, place: Place) -> None:
    """A plain reader may miss what is on its way, and never sees an event twice or one that is not there."""
    log = {row["position"]: row for row in logged(place)}
    seen = bronze(lake)
    assert len({row["position"] for row in seen}) == len(seen)
    assert all(row["data"] == log[row["position"]]["data"] for row in seen)
    by_manifest = rows(lake_files(lake), "position")
    assert [row["position"] for row in by_manifest] == list(range(1, len(by_manifest) + 1))
