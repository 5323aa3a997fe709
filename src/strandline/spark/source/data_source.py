"""The data source that Spark calls."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ...engine import Span
from ...engine.audit import events
from ...engine.open import DEFAULT_LOG, open_engine
from ...query import Query
from .columns import SCHEMA


class StrandlineSource(DataSource):
    """A log as a table of events."""

    @classmethod
    def name(cls) -> str:
        return "strandline"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(dict(self.options), schema.names)


class Range(InputPartition):
    """The positions `(after, until]`."""

    def __init__(self, after: int, until: int) -> None:
        self.after = after
        self.until = until


class BatchReader(DataSourceReader):
    """Reads a range of positions."""

    def __init__(self, options: dict[str, str], names: Sequence[str]) -> None:
        self._options = options
        self._names = names

    def partitions(self) -> Sequence[InputPartition]:
        engine = self._open()
        try:
            head = engine.head()
        finally:
            engine.close()
        after = int(self._options.get("after", 0))
        until = min(head, int(self._options.get("until", head)))
        count = max(1, int(self._options.get("partitions", 2)))
        edges = [after + (until - after) * number // count for number in range(count + 1)]
        return [Range(start, end) for start, end in itertools.pairwise(edges) if start < end]

    def read(self, partition: Any) -> Iterator[tuple[Any, ...]]:
        if not isinstance(partition, Range):
            return
        engine = self._open()
        text = self._options.get("query")
        query = Query.from_json(text) if text else Query.all()
        try:
            for event in events(engine, query, Span(partition.after, partition.until)):
                yield tuple(_value(event, name) for name in self._names)
        finally:
            engine.close()

    def _open(self) -> Any:
        return open_engine(
            self._options["url"],
            log=self._options.get("log", DEFAULT_LOG),
            clock=None,
            record_conditions=True,
            create=False,
        )


def _value(event: Any, name: str) -> Any:
    value = getattr(event, name)
    if name == "data":
        return bytes(value).decode()
    if name == "id":
        return str(value)
    return list(value) if name == "tags" else dict(value) if name == "metadata" else value
