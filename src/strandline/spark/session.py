"""A Spark session with settings that suit events, on this machine unless told otherwise."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput, MissingDependency
from .failures import require_pyspark
from .java import Java, find_java
from .reach import is_local
from .source import register
from .wrappers import wrapper

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"
_starting = threading.Lock()
_MASTERS = re.compile(r"local(\[.+\])?|local-cluster\[.+\]|yarn|(spark|k8s|sc)://.+")


def active_session() -> SparkSession | None:
    """Return the session that runs in this process, if there is one."""
    try:
        from pyspark.errors import PySparkRuntimeError
        from pyspark.sql import SparkSession
    except ImportError:
        return None
    try:
        found = SparkSession.active()
    except PySparkRuntimeError:
        return None
    is_stopped = hasattr(found, "_jsparkSession") and found._sc._jsc is None
    return None if is_stopped else found


def session(master: str | None = None, **conf: Any) -> SparkSession:
    """A Spark session that knows `format("strandline")`; on this machine (`local[*]`) unless `master` says otherwise.

    Further settings by their Spark names: `session(**{"spark.sql.shuffle.partitions": 8})`. A session that
    runs already is used as it is.
    """
    require_pyspark()
    with _starting:
        running = active_session()
        spark = running or _started(master or LOCAL, conf)
    if running is not None and master is not None:
        _warn_of_another(running, master)
    register(spark)
    return spark


def _warn_of_another(running: SparkSession, master: str) -> None:
    theirs = running.conf.get("spark.master", None)
    if theirs is not None and theirs != master:
        warnings.warn(
            f"a session runs on {theirs} already. It is used as it is, and {master} is not."
            " Call spark.stop() first to start another one.",
            stacklevel=3,
        )


def _started(master: str, conf: dict[str, Any]) -> SparkSession:
    from pyspark.sql import SparkSession

    if not _MASTERS.fullmatch(master):
        raise InvalidInput(
            f"Spark does not run on {master!r:.80}",
            hint="a master is local[*], spark://host:7077, yarn, k8s://… or, through Spark Connect, sc://host:15002",
        )
    builder = SparkSession.builder.appName("strandline")
    if master.startswith("sc://"):
        try:
            return _configured(builder.remote(master), conf).getOrCreate()
        except ImportError as error:
            raise MissingDependency(
                f"Spark Connect needs more of PySpark: {error}", hint="pip install 'pyspark[connect]'"
            ) from error
    java = find_java()
    with _environment(master, java):
        return _configured(builder.master(master), _settings(master, java) | conf).getOrCreate()


def _configured(builder: SparkSession.Builder, conf: dict[str, Any]) -> SparkSession.Builder:
    for name, value in conf.items():
        builder = builder.config(name, str(value).lower() if isinstance(value, bool) else str(value))
    return builder


def _settings(master: str, java: Java) -> dict[str, Any]:
    """What differs from Spark's own defaults."""
    from .class_archive import archive_options

    settings: dict[str, Any] = {
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": False,
    }
    if _is_here(master):
        settings |= {
            "spark.ui.enabled": False,
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": f"{_heap_mib()}m",
            "spark.log.level": "ERROR",
            "spark.sql.shuffle.partitions": max(2, min(os.cpu_count() or 2, 16)),
            "spark.sql.adaptive.coalescePartitions.enabled": False,
        }
        settings |= archive_options(java)
    return settings


def _heap_mib() -> int:
    """An eighth of the memory, between 1 and 4 GiB: with Spark's own 1 GiB sorting a million events spills to disk."""
    return min(max((_memory_bytes() >> 20) // 8, 1024), 4096)


def _memory_bytes() -> int:
    """What the machine has, or the container may have of it."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError), open("/sys/fs/cgroup/memory.max") as limit:
        return min(total, int(limit.read()))
    return total


def _is_here(master: str) -> bool:
    return is_local(master) or master.startswith("local-cluster[")


@contextlib.contextmanager
def _environment(master: str, java: Java) -> Iterator[None]:
    """What Spark looks up in the environment while it starts."""
    wanted = {"JAVA_HOME": java.home}
    if _is_here(master) and "PYSPARK_PYTHON" not in os.environ:
        wanted["PYSPARK_PYTHON"] = _python()
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _python() -> str:
    """A Python for workers that imports what this process can, PySpark too: Spark would have each of them unpack
    and compile a zipped copy of it.
    """
    path = os.pathsep.join(map(os.path.abspath, sys.path))
    return wrapper(
        "python", f'#!/bin/sh\nPYTHONPATH={shlex.quote(path)} exec {shlex.quote(sys.executable)} "$@"\n'
    )
