"""The log as tables for the audit: events with all their tags, what appends asked, and payloads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ...engine import Engine
from ...engine.open import open_engine
from ...engine.recorded import raw_appends
from ...query import Query
from ..source.options import Options
from ..source.ranges import Range, split
from ..source.reading import check_whole, raw_batches
from .questions import QUESTIONS, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "strandline-audit"

Table = Literal["events", "questions", "payloads"]

SCHEMAS: dict[Table, str] = {
    "events": "position BIGINT, type STRING, tags STRING, stream STRING, subject STRING",
    "questions": QUESTIONS,
    "payloads": "position BIGINT, data BINARY, metadata BINARY",
}


def table(spark: SparkSession, name: Table, url: str, log: str, until: int) -> DataFrame:
    """One of the tables, up to a position."""
    spark.dataSource.register(AuditSource)
    reader = spark.read.format(NAME).options(url=url, log=log, until=until)
    return reader.schema(SCHEMAS[name]).load()


def open_log(url: str, log: str) -> Engine:
    """The log at a URL, which must exist."""
    return open_engine(url, log=log, clock=None, record_conditions=True, create=False)


class AuditSource(DataSource):
    """A log as the table that the schema asks for."""

    @classmethod
    def name(cls) -> str:
        """What `format` calls it."""
        return NAME

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads the table."""
        return TableReader(Options.of(self.options), schema)


class TableReader(DataSourceReader):
    """Reads ranges of positions."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema: pa.Schema = to_arrow_schema(schema)

    def partitions(self) -> Sequence[InputPartition]:
        """Ranges of equal size."""
        engine = self._options.open()
        try:
            return split(str(engine.log_id()), (0, self._options.until or 0), None, scan=True)
        finally:
            engine.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a range."""
        if not isinstance(partition, Range):  # Spark makes one up if there are none
            return
        asks_questions = "first" in self._schema.names
        batches = self._questions(partition) if asks_questions else self._columns(partition)
        for columns in batches:
            yield pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _columns(self, part: Range) -> Iterator[list[pa.Array]]:
        for raw in raw_batches(self._options, Query.all(), part, self._schema.names):
            yield [raw[field.name].cast(field.type) for field in self._schema]

    def _questions(self, part: Range) -> Iterator[list[pa.Array]]:
        engine = self._options.open()
        try:
            check_whole(part, str(engine.log_id()), engine.head())
            for page in raw_appends(engine, part.after, part.until):
                rows = [row for append in page for row in rows_of(append)]
                columns = zip(zip(*rows, strict=True), self._schema.types, strict=True)
                yield [pa.array(values, kind) for values, kind in columns]
        finally:
            engine.close()
