"""Reading a log with Spark: our source beside Spark's own JDBC source, on the same database and as many partitions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache, partial
from glob import glob
from typing import Any
from urllib.parse import urlsplit

import strandline
import strandline.spark as sls
from strandline.errors import MissingDependency

from .case import Absent, Case, Measured, Size, by_command_in_threads_on_a_server
from .clients import run_threads
from .lab import Lab
from .stores import Store

PARTITIONS = 2
WHOLE = ("position", "type", "tags", "data", "id", "metadata", "stream", "subject", "recorded_at")
NARROW = ("position", "type")
SCHEMA = "position BIGINT, type STRING"
# Debian's package libpostgresql-jdbc-java, or what the variable names.
JARS = ("/usr/share/java/postgresql.jar", "/usr/share/java/postgresql-jdbc*.jar")
VARIABLE = "STRANDLINE_JDBC_JAR"

Read = Callable[[str, int], Any]


def jdbc_jar() -> str | None:
    """PostgreSQL's driver for Java, if it is installed."""
    found = [os.environ.get(VARIABLE, ""), *(path for pattern in JARS for path in sorted(glob(pattern)))]
    return next((path for path in found if os.path.exists(path)), None)


def cases(size: Size) -> Iterator[Case]:
    """Whole events and two columns of them, each by our source and by JDBC."""
    for name, title, read in (
        ("read", "whole events by Spark, our source", by_source),
        ("narrow", "position and type by Spark, our source", narrow_by_source),
        ("read-jdbc", "whole events by Spark, JDBC", by_jdbc),
        ("narrow-jdbc", "position and type by Spark, JDBC", narrow_by_jdbc),
    ):
        yield Case(
            f"spark:{name}{size.name}",
            "spark",
            title + size.title,
            "events/s",
            partial(_read_all, read=read, events=size.events),
            by_command_in_threads_on_a_server,
            size.in_quick(),
            events=size.events,
        )


def _read_all(lab: Lab, store: Store, read: Read, events: int) -> Measured:
    """A frame of the whole log, read to its end again and again; the first time does not count."""
    with lab.running(store, events=events, writes=False) as running:
        with strandline.connect(running.address) as log:
            head = log.head()

        def step() -> int:
            read(running.address, head).write.format("noop").mode("overwrite").save()
            return head

        step()
        return Measured.of(run_threads([step], lab.settings.seconds))


def by_source(url: str, head: int) -> Any:
    """Whole events by our source."""
    return _source(url).load()


def narrow_by_source(url: str, head: int) -> Any:
    """Two columns by our source."""
    return _source(url).schema(SCHEMA).load()


def by_jdbc(url: str, head: int) -> Any:
    """Whole events by JDBC."""
    return _jdbc(url, head).select(*WHOLE)


def narrow_by_jdbc(url: str, head: int) -> Any:
    """Two columns by JDBC."""
    return _jdbc(url, head).select(*NARROW)


def _source(url: str) -> Any:
    return session().read.format("strandline").option("url", url).option("partitions", PARTITIONS)


def _jdbc(url: str, head: int) -> Any:
    if jdbc_jar() is None:
        raise Absent(f"no JDBC driver for PostgreSQL: install libpostgresql-jdbc-java, or set {VARIABLE}")
    server = urlsplit(url)
    options = {
        "url": f"jdbc:postgresql://{server.hostname}:{server.port}{server.path}",
        "driver": "org.postgresql.Driver",
        "user": server.username,
        "dbtable": "strandline_default.event",
        "fetchsize": 10_000,
        "partitionColumn": "position",
        "lowerBound": 1,
        "upperBound": head + 1,
        "numPartitions": PARTITIONS,
    }
    return session().read.format("jdbc").options(**options).load()


@cache
def session() -> Any:
    """The session of all measurements, with the driver for JDBC if there is one."""
    jar = jdbc_jar()
    try:
        return sls.session(f"local[{PARTITIONS}]", **({"spark.driver.extraClassPath": jar} if jar else {}))
    except MissingDependency as error:
        raise Absent(f"{error}: {error.hint}") from error
