"""Where the tasks of an export write to, as Spark calls it: each its own files, and the driver a list of all."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from .task import Job, Report, Task

NAME = "strandline_lake"
JOB = "job"
REPORT = "report"


class Written(WriterCommitMessage):
    """What a task tells the driver."""

    def __init__(self, report: bytes) -> None:
        self.report = report


class LakeWriter(DataSourceArrowWriter):
    """Writes the files of a job."""

    def __init__(self, job: Job, report: str) -> None:
        self._job = job
        self._report = report

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the files of one task."""
        return Written(msgspec.json.encode(Task(self._job).run(iterator)))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Tell the process that started the job, which is another one, what the tasks wrote."""
        reports = [msgspec.Raw(told.report) for told in messages if isinstance(told, Written)]
        os.makedirs(os.path.dirname(self._report), exist_ok=True)
        with open(self._report, "wb") as file:
            file.write(msgspec.json.encode(reports))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Leave what was written in staging, where the next export removes it."""


class LakeSink(DataSource):
    """A place for the tables of a lake."""

    @classmethod
    def name(cls) -> str:
        """What `format` calls it."""
        return NAME

    def writer(self, schema: StructType, overwrite: bool) -> LakeWriter:  # noqa: FBT001  (Spark calls it so)
        """Writes what its options say."""
        return LakeWriter(msgspec.json.decode(self.options[JOB], type=Job), self.options[REPORT])


def read_report(path: str) -> list[Report]:
    """What the tasks of a job told."""
    with open(path, "rb") as file:
        return msgspec.json.decode(file.read(), type=list[Report])
