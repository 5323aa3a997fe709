"""The jobs of an export on Spark."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

import msgspec

from ...query import Query
from ..failures import failures
from ..frames import events
from .task import EVENTS, Job, Report, Task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_HINT = "the lake is as it was after its last commit, and whole: put this right, and run the export again"


class Jobs(Protocol):
    """Runs jobs; each gives a report for every task."""

    def write_events(self, job: Job, after: int, until: int, query: Query | None) -> list[Report]:
        """Write the matching events of `(after, until]`."""
        ...

    def fold(self, projection: str, until: int) -> Any:
        """The states of all keys of a projection, as a table that is not worked out yet."""
        ...

    def write_table(self, job: Job, table: Any) -> list[Report]:
        """Write a table as it is; at least one file, for its columns are to be seen even if it has no rows."""
        ...


class SparkJobs:
    """Runs them on Spark."""

    def __init__(self, spark: SparkSession, url: str, log: str) -> None:
        from .sink import LakeSink

        spark.dataSource.register(LakeSink)
        self._spark = spark
        self._url = url
        self._log = log

    def write_events(self, job: Job, after: int, until: int, query: Query | None) -> list[Report]:
        """See `Jobs`."""
        frame = events(
            self._spark,
            self._url,
            log=self._log,
            query=query,
            after=after,
            until=until,
            columns=EVENTS.names,
            binary=True,
        )
        return self._write(job, frame)

    def fold(self, projection: str, until: int) -> DataFrame:
        """See `Jobs`."""
        from .. import fold

        return fold(self._spark, self._url, projection, until, log=self._log)

    def write_table(self, job: Job, table: DataFrame) -> list[Report]:
        """See `Jobs`."""
        from pyspark.sql.pandas.types import to_arrow_schema

        reports = self._write(job, table)
        if any(report.files for report in reports):
            return reports
        return [Task(job).run_empty(to_arrow_schema(table.schema, timezone="UTC"))]

    def _write(self, job: Job, frame: DataFrame) -> list[Report]:
        from .sink import JOB, NAME, REPORT, read_report

        place = os.path.join(job.staging, f"{uuid4().hex}.json")
        writer = frame.write.format(NAME).option(JOB, msgspec.json.encode(job).decode()).option(REPORT, place)
        with failures("write to the lake", _HINT):
            writer.mode("append").save()
        return read_report(place)
