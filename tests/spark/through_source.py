"""Reading through the source's own classes, here and now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from places import Place
from strandline import SequencedEvent
from strandline.spark.source.data_source import StrandlineSource

TYPES: dict[str, DataType] = {
    "position": LongType(),
    "type": StringType(),
    "tags": ArrayType(StringType()),
    "data": StringType(),
    "id": StringType(),
    "metadata": MapType(StringType(), StringType()),
    "stream": StringType(),
    "subject": StringType(),
    "recorded_at": TimestampType(),
}

Rows = list[dict[str, Any]]


def schema(*names: str, **kinds: DataType) -> StructType:
    """A schema of these columns, of all if none is named."""
    return StructType([StructField(name, kinds.get(name, TYPES[name])) for name in names or TYPES])


def source(place: Place, **options: Any) -> StrandlineSource:
    """The source with its options, which Spark passes on as text."""
    texts = {name: str(value) for name, value in options.items()}
    return StrandlineSource({"url": str(place.url), **place.options, **texts})


def reader(place: Place, columns: StructType | None = None, **options: Any) -> DataSourceReader:
    """A reader of some columns, or of all."""
    return source(place, **options).reader(columns or schema())


def read(place: Place, columns: StructType | None = None, **options: Any) -> Rows:
    """All that the source gives."""
    made = reader(place, columns, **options)
    return rows(made, made.partitions(), columns)


def rows(made: Any, partitions: Iterable[InputPartition], columns: StructType | None = None) -> Rows:
    """What the reader makes of partitions, in the very schema that Spark expects."""
    found: Rows = []
    # As Spark does it, which does not know "no partition".
    for partition in list(partitions) or [InputPartition(None)]:
        for batch in made.read(partition):
            batch.validate(full=True)
            assert batch.schema.equals(to_arrow_schema(columns or schema(), timezone="UTC"))
            found += batch.to_pylist()
    return found


def row(event: SequencedEvent) -> dict[str, Any]:
    """The row that stands for an event."""
    return {
        "position": event.position,
        "type": event.type,
        "tags": list(event.tags),
        "data": event.data.decode(),
        "id": str(event.id),
        "metadata": [*event.metadata.items()],
        "stream": event.stream,
        "subject": event.subject,
        "recorded_at": event.recorded_at,
    }
