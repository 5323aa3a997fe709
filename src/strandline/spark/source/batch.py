"""Reading a log once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ...engine import Engine
from ...query import Query
from .columns import check_schema
from .options import Options
from .ranges import Range, is_common, split
from .reading import batches


def planned(engine: Engine, query: Query, span: tuple[int, int], options: Options) -> list[Range]:
    """Ranges of equal size."""
    if span[0] >= span[1]:
        return []
    return split(str(engine.log_id()), span, options.partitions, scan=is_common(engine, query, span))


class BatchReader(DataSourceReader):
    """Reads a range of positions; the head is fixed when the partitions are planned."""

    def __init__(self, options: Options, schema: StructType) -> None:
        check_schema(schema)
        self._options = options
        self._query: Query | None = options.query  # None: nothing can match
        self._schema: pa.Schema = to_arrow_schema(schema, timezone="UTC")

    def partitions(self) -> Sequence[InputPartition]:
        """Ranges of equal size."""
        with closing(self._options.open()) as engine:
            return (
                [] if self._query is None else planned(engine, self._query, self._span(engine), self._options)
            )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The events of a range."""
        # Spark replaces an empty list of partitions by one that stands for nothing.
        if isinstance(partition, Range) and self._query is not None:
            yield from batches(self._options, self._query, partition, self._schema)

    def _span(self, engine: Engine) -> tuple[int, int]:
        """The positions `(after, until]` to read."""
        head, until = engine.head(), self._options.until
        return self._options.after, head if until is None else min(until, head)
