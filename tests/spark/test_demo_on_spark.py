"""The demo goes on with the pipeline: Spark and the store agree on the same log."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.dataset
import pytest

from strandline.cli.app import run
from strandline.cli.demo import pipeline

DEMO = ("demo", "--path", "demo.db", "--students", "30", "--clients", "8", "--spark", "--json")


def test_the_demo_exports_folds_audits_and_reports(spark, capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(DEMO) == 0
    result = json.loads(capfd.readouterr().out)
    told = result["spark"]
    assert told["exported"] == told["checked"] == 6 + result["subscribed"]
    assert (told["folded"], told["equal"], told["violations"]) == (6, 6, 0)
    assert "<html" in Path(told["report"]).read_text()
    bronze = pyarrow.dataset.dataset(Path(told["lake"]) / "bronze", partitioning="hive")
    assert bronze.count_rows() == told["exported"]


@pytest.mark.parametrize(("equal", "violations", "sound"), [(6, 0, True), (5, 0, False), (6, 1, False)])
def test_a_fold_that_differs_or_a_violation_is_told(equal, violations, sound):
    assert pipeline.Pipeline("lake", 9, 6, equal, 9, violations, "page", 1.0).is_sound is sound


def test_the_projection_is_named_as_executors_import_it():
    assert pipeline.SALES == "strandline.cli.demo.courses:Sales"
