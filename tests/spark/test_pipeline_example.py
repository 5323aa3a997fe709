"""The pipeline in examples/spark_pipelines: its tables are defined as Spark reads them, and get what is new.

`spark-pipelines` itself needs packages that Strandline does not; here its part is played by the shared session.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lake_story import add_courses, begin
from pyspark.pipelines.graph_element_registry import GraphElementRegistry, graph_element_registration_context
from pyspark.sql import SparkSession

from places import Place

# Spark's workers have the environment in which its JVM was started, so the log has its place before that.
FOLDER = Path(tempfile.mkdtemp(prefix="strandline-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
os.environ["SCHOOL_URL"] = str(FOLDER / "log.db")

PIPELINE = Path(__file__).parent.parent.parent / "examples/spark_pipelines"


class Graph(GraphElementRegistry):
    """Notes what a pipeline defines."""

    def __init__(self) -> None:
        self.outputs: list[Any] = []
        self.flows: list[Any] = []

    def register_output(self, output: Any) -> None:
        self.outputs.append(output)

    def register_flow(self, flow: Any) -> None:
        self.flows.append(flow)

    def register_auto_cdc_flow(self, flow: Any) -> None:
        raise NotImplementedError

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        raise NotImplementedError


@pytest.fixture
def graph() -> Graph:
    """The pipeline, its files read in the order of their names."""
    found = Graph()
    with graph_element_registration_context(found):
        for path in sorted(PIPELINE.glob("transformations/*.py")):
            spec = importlib.util.spec_from_file_location(path.stem, path)
            assert spec is not None
            assert spec.loader is not None
            spec.loader.exec_module(importlib.util.module_from_spec(spec))
    return found


@pytest.fixture
def database(spark: SparkSession) -> Iterator[None]:
    """A database of its own, for the tables have plain names."""
    spark.sql("create database pipeline")
    spark.catalog.setCurrentDatabase("pipeline")
    yield
    spark.catalog.setCurrentDatabase("default")
    spark.sql("drop database pipeline cascade")


def run(graph: Graph, folder: Path) -> None:
    for flow in graph.flows:
        writer = flow.func().writeStream.format("parquet").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(folder / "storage" / flow.name))
        writer.option("path", str(folder / "tables" / flow.name)).toTable(flow.target).awaitTermination()


@pytest.mark.usefixtures("database")
def test_each_run_adds_what_is_new(spark: SparkSession, graph: Graph, tmp_path: Path):
    place = Place(os.environ["SCHOOL_URL"])
    begin(place)
    run(graph, tmp_path)
    with place.connect() as store:
        add_courses(store, 7, 8)
        log = [(event.position, event.type) for event in store.read()]
        courses = [
            (event.position, *event.json().values())
            for event in store.read()
            if event.type == "CourseDefined"
        ]
    run(graph, tmp_path)

    rows = spark.table("bronze").orderBy("position").select("position", "type").collect()
    assert [tuple(row) for row in rows] == log
    rows = (
        spark.table("course_defined").orderBy("position").select("position", "course", "capacity").collect()
    )
    assert [tuple(row) for row in rows] == courses
    assert spark.table("student_subscribed").count() == 12


def test_every_table_has_its_flow(graph: Graph):
    assert [output.name for output in graph.outputs] == [flow.target for flow in graph.flows]
    assert [flow.name for flow in graph.flows] == ["bronze", "course_defined", "student_subscribed"]
    assert "include: transformations/**" in (PIPELINE / "spark-pipeline.yml").read_text()
