"""Exports on Spark itself, and what Spark and others read of a lake."""

from __future__ import annotations

from pathlib import Path

import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from lake_story import FIRST, SECOND, begin, go_on
from lakes import bronze, equals_log, gold, silver
from local_jobs import export
from pyspark.sql import SparkSession

import strandline.spark as sls
from places import Place
from strandline import Event, Query
from strandline.errors import Unavailable
from strandline.spark.lake.folder import Folder


def test_spark_writes_the_lake_that_is_expected(spark: SparkSession, kept: Place, tmp_path: Path):
    lake, told, format = tmp_path / "lake", [], "delta" if kept.is_in_database else "parquet"
    begin(kept)
    sls.export(spark, kept.url, lake, format, **kept.options, **FIRST)
    go_on(kept)
    done = sls.export(
        spark, kept.url, lake, format, **kept.options, **SECOND, progress=lambda *step: told.append(step)
    )
    export(kept, tmp_path / "without", format, **FIRST | SECOND)

    equals_log(lake, kept)
    for type in ("CourseDefined", "StudentSubscribed"):
        assert silver(lake, type) == silver(tmp_path / "without", type)
    assert [row["id"] for row in gold(lake, "Course")] == ["c0", "c1", "c2", "c3", "c4"]
    assert told == [("events", 0, done.events), ("events", done.events, done.events)]


def test_every_reader_sees_the_same(spark: SparkSession, tmp_path: Path):
    place, lake = Place(tmp_path / "log.db"), tmp_path / "lake"
    begin(place)
    sls.export(spark, place.url, lake, batch=8)

    with place.connect() as store:
        expected = [(event.position, list(event.tags), event.recorded_at.date()) for event in store.read()]
    plain = spark.read.parquet(f"{lake}/bronze")
    by_manifest = sls.read_lake(spark, lake)
    for frame in (plain, by_manifest):
        rows = frame.orderBy("position").select("position", "tags", "date").collect()
        assert [tuple(row) for row in rows] == expected
    arrow = (
        ds.dataset(lake / "bronze", partitioning="hive")
        .to_table(columns=["position", "tags"])
        .sort_by("position")
    )
    assert arrow.to_pylist() == [{"position": position, "tags": tags} for position, tags, _ in expected]
    paid = sls.read_lake(spark, lake, "silver/Paid").collect()
    assert [(row["amount"], row["by"], row["notes"]) for row in paid] == [(1, '{"name":"ada"}', ["a", "b"])]


def test_spark_reads_delta_tables_without_a_jar(spark: SparkSession, tmp_path: Path):
    place, lake = Place(tmp_path / "log.db"), tmp_path / "lake"
    begin(place)
    sls.export(spark, place.url, lake, "delta")

    assert sls.read_lake(spark, lake).count() == 13
    delta = DeltaTable(lake / "bronze")
    with place.connect() as store:
        assert delta.transaction_version(f"strandline/{store.stats().log}") == 13


def test_an_export_whose_executor_dies_commits_nothing_and_is_made_good_by_the_next(
    spark: SparkSession, tmp_path: Path
):
    place, lake, marker = Place(tmp_path / "log.db"), tmp_path / "lake", tmp_path / "marker"
    begin(place)
    sls.export(spark, place.url, lake, events="deadly")
    with place.connect() as store:
        store.append([Event("Deadly", {"marker": str(marker)}), Event("Paid", {"amount": 2})])
    marker.touch()
    with pytest.raises(Unavailable, match="Spark could not write to the lake"):
        sls.export(spark, place.url, lake)
    assert not marker.exists()
    assert len(bronze(lake)) == Folder(lake).existing().head == 13
    sls.export(spark, place.url, lake)

    equals_log(lake, place)
    assert [row["marker"] for row in silver(lake, "Deadly")] == [str(marker)]


def test_a_log_of_many_tasks(spark: SparkSession, tmp_path: Path):
    place, lake = Place(tmp_path / "log.db"), tmp_path / "lake"
    with place.connect() as store:
        store.append(Event("Rare", {"n": 0}))
        for start in range(0, 25_000, 5_000):
            store.append(
                [Event("Counted", {"n": n}, tags=[f"n:{n % 7}"]) for n in range(start, start + 5_000)]
            )
    done = sls.export(spark, place.url, lake)

    equals_log(lake, place)
    assert done.files > 4  # several tasks, of which some had no event of the type that is rare


def test_the_bronze_of_a_lake_can_be_imported(spark: SparkSession, tmp_path: Path):
    place, lake, copy = Place(tmp_path / "log.db"), tmp_path / "lake", tmp_path / "copy.db"
    begin(place)
    go_on(place)
    sls.export(spark, place.url, lake)
    done = sls.import_events(spark, str(copy), f"{lake}/bronze", "parquet")

    assert (done.written, done.skipped) == (25, 2)
    with place.connect() as store, Place(copy).connect() as other:
        originals = list(store.read(Query.user()))
        assert [(event.id, event.data, event.tags) for event in other.read()] == [
            (event.id, event.data, event.tags) for event in originals
        ]
