"""A Spark session with settings that suit events, on this machine unless told otherwise."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from ..errors import MissingDependency
from .java import find_java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXTRA = "pip install 'strandline[spark]'"


def session(master: str | None = None, **conf: Any) -> SparkSession:
    """A Spark session that knows `format("strandline")`; on this machine (`local[*]`) unless `master` says otherwise.

    Further settings by their Spark names: `session(**{"spark.sql.shuffle.partitions": 8})`. A session that
    runs already is used.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingDependency("PySpark is not installed", hint=EXTRA) from None
    from .source import register

    active = SparkSession.getActiveSession()
    if active is None:
        remote = master is not None and master.startswith("sc://")
        if not remote:
            os.environ["JAVA_HOME"] = find_java_home()
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            os.environ["PYTHONPATH"] = os.pathsep.join(
                map(os.path.abspath, sys.path)
            )  # workers import what we can
        builder = SparkSession.builder.appName("strandline")
        builder = builder.remote(master) if remote and master else builder.master(master or "local[*]")
        for name, value in {**({} if remote else _settings(master or "local[*]")), **conf}.items():
            builder = builder.config(name, str(value).lower() if isinstance(value, bool) else str(value))
        active = builder.getOrCreate()
    register(active)
    return active


def _settings(master: str) -> dict[str, str]:
    """What differs from Spark's own defaults."""
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": "false",
    }
    if master.startswith("local"):
        settings |= {
            "spark.ui.enabled": "false",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": str(max(2, min(os.cpu_count() or 2, 16))),
            "spark.sql.adaptive.coalescePartitions.enabled": "false",
        }
    return settings
