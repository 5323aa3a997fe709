"""The log as tables for the audit: events by all their tags, what appends asked, and what is rarely needed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ...engine import Engine, Span
from ...engine.audit import events
from ...engine.open import DEFAULT_LOG, open_engine
from ...engine.recorded import raw_appends
from ...event import SequencedEvent
from ...names import RETAGGED
from ...query import Query
from .questions import QUESTIONS, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "strandline-recorded"
FEWEST_EVENTS = 20_000  # for fewer than that a task of its own does not pay
PAGE = 2_000

Table = Literal["events", "questions", "payloads"]
Rows = Iterator[Sequence[tuple[Any, ...]]]

SCHEMAS: dict[Table, str] = {
    "events": "position BIGINT, type STRING, tags STRING, stream STRING, subject STRING, changes STRING",
    "questions": QUESTIONS,
    "payloads": "position BIGINT, data BINARY, metadata BINARY",
}


def table(spark: SparkSession, name: Table, url: str, log: str, until: int) -> DataFrame:
    """One of the tables, up to a position."""
    spark.dataSource.register(AuditSource)
    reader = spark.read.format(NAME).options(url=url, log=log, until=until, table=name)
    return reader.schema(SCHEMAS[name]).load()


def open_log(url: str, log: str) -> Engine:
    """The log at a URL, which must exist."""
    return open_engine(url, log=log, clock=None, record_conditions=True, create=False)


class AuditSource(DataSource):
    """A log as one of the tables."""

    @classmethod
    def name(cls) -> str:
        """What `format` calls it."""
        return NAME

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads the table."""
        return TableReader(dict(self.options), schema)


class Positions(InputPartition):
    """The positions `(after, until]`."""

    def __init__(self, after: int, until: int) -> None:
        self.after = after
        self.until = until


class TableReader(DataSourceReader):
    """Reads ranges of positions."""

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        self._options = options
        self._schema: pa.Schema = to_arrow_schema(schema)

    def partitions(self) -> Sequence[InputPartition]:
        """Ranges of equal size."""
        until = int(self._options["until"])
        count = max(1, -(-until // FEWEST_EVENTS))
        edges = [until * number // count for number in range(count + 1)]
        return [Positions(after, end) for after, end in itertools.pairwise(edges)]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The rows of a range."""
        engine = open_log(self._options["url"], self._options.get("log", DEFAULT_LOG))
        try:
            for rows in _READ[self._options["table"]](engine, partition.after, partition.until):
                columns = zip(zip(*rows, strict=True), self._schema.types, strict=True)
                arrays = [pa.array(values, kind) for values, kind in columns]
                yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        finally:
            engine.close()


def _events(engine: Engine, after: int, until: int) -> Rows:
    found = events(engine, Query.all(), Span(after, until))
    while page := list(itertools.islice(found, PAGE)):
        yield [event_row(event) for event in page]


def event_row(event: SequencedEvent) -> tuple[Any, ...]:
    """A row of the table of events; a retag says what it changed."""
    changes = event.data.decode() if event.type == RETAGGED else None
    return event.position, event.type, event.raw_tags, event.stream, event.subject, changes


def _payloads(engine: Engine, after: int, until: int) -> Rows:
    found = events(engine, Query.all(), Span(after, until))
    while page := list(itertools.islice(found, PAGE)):
        yield [(e.position, e.data, e.raw_metadata) for e in page]


def _questions(engine: Engine, after: int, until: int) -> Rows:
    has_retags = engine.exists(Query.types(RETAGGED), 0)
    for page in raw_appends(engine, after, until):
        yield [row for append in page for row in rows_of(append, with_condition=has_retags)]


_READ: dict[str, Callable[[Engine, int, int], Rows]] = {
    "events": _events,
    "questions": _questions,
    "payloads": _payloads,
}
