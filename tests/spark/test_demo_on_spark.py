"""The demo goes on with the pipeline: Spark and the store agree on the same log."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.dataset
import pytest

from strandline.cli.app import run
from strandline.cli.demo import pipeline
from strandline.cli.demo.courses import Sales

DEMO = ("demo", "--path", "demo.db", "--students", "30", "--clients", "8", "--spark", "--json")


@pytest.fixture(autouse=True)
def _own_folder(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_the_demo_exports_folds_audits_and_reports(capfd):
    assert run(DEMO) == 0
    result = json.loads(capfd.readouterr().out)
    told = result["spark"]
    assert told["exported"] == told["checked"] == 6 + result["subscribed"]
    assert (told["folded"], told["equal"], told["violations"]) == (6, 6, 0)
    assert "<html" in Path(told["report"]).read_text()
    bronze = pyarrow.dataset.dataset(Path(told["lake"]) / "bronze", partitioning="hive")
    assert bronze.count_rows() == told["exported"]


def test_a_fold_that_differs_is_told(capfd, monkeypatch):
    def careless(store, courses):
        return [_wrong(course) for course in courses]

    def _wrong(name):
        course = Sales(name)
        course.seats = 1
        return course

    monkeypatch.setattr("strandline.cli.demo.command.sales_of", careless)
    assert run(DEMO) == 1
    assert json.loads(capfd.readouterr().out)["spark"]["equal"] == 0


def test_the_projection_is_named_as_executors_import_it():
    assert pipeline.SALES == "strandline.cli.demo.courses:Sales"
