"""The log divided by key into buckets, each for one task, in which events keep the order of the log.

Events travel packed, some thousands in a row of Spark's: it moves and sorts few rows, and looks into none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ...domain.folding import Fold
from ...query import Query
from ..frames import fixed_head
from ..reach import reachable
from ..source.arrow import Raw
from ..source.batch import planned
from ..source.options import Options
from ..source.ranges import Range
from ..source.reading import raw_batches
from .columns import KEY, columns_for
from .keying import Keying, buckets_of
from .rows import packed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "strandline-fold"
SCHEMA = "bucket INT, projection INT, position BIGINT, events BINARY"
FEWEST_EVENTS = 10_000  # a task for less costs more than it saves
PIECE_BYTES = 1 << 16  # a row of Spark: large ones a JVM must find whole regions of its heap for
MOST_EVENTS = 500_000  # each may have a key of its own, and a task keeps the states of its keys

_ARROW = pa.schema(
    {"bucket": pa.int32(), "projection": pa.int32(), "position": pa.int64(), "events": pa.binary()}
)


class Told(msgspec.Struct, frozen=True):
    """What a read is told beside where the log is."""

    keyings: tuple[Keying, ...]
    columns: tuple[str, ...]
    buckets: int


def bucketed(
    spark: SparkSession, url: str, folds: Sequence[Fold], *, log: str, until: int | None
) -> DataFrame:
    """What the projections handle up to a position, or the present head, in one pass over the log.

    A row has events of one projection in one bucket; a task gets a bucket, one projection after the other, each in the
    order of positions.
    """
    address = reachable(spark, url)
    head = fixed_head(address, log, until)
    count = bucket_count(head, int(str(spark.conf.get("spark.sql.shuffle.partitions"))))
    told = Told(tuple(map(Keying.of, folds)), columns_for(folds), count)
    types = sorted({name for fold in folds for name in fold.types})
    spark.dataSource.register(FoldSource)
    reader = spark.read.format(NAME).options(url=address, log=log, until=head)
    reader = reader.options(query=Query.types(*types).to_json(), told=msgspec.json.encode(told).decode())
    divided = reader.schema(SCHEMA).load().repartitionById(count, "bucket")
    return divided.sortWithinPartitions("projection", "position")


def bucket_count(events: int, wanted: int) -> int:
    """As many as Spark would make, but no tiny ones, and none with more keys than fit into memory."""
    return max(1, min(wanted, -(-events // FEWEST_EVENTS)), -(-events // MOST_EVENTS))


class FoldSource(DataSource):
    """A log as buckets."""

    @classmethod
    def name(cls) -> str:
        """What `format` calls it."""
        return NAME

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads and divides it."""
        given = dict(self.options)
        told = msgspec.json.decode(given.pop("told"), type=Told)
        return BucketReader(Options.of(given), told)


class BucketReader(DataSourceReader):
    """Reads ranges of positions, and divides what is in them."""

    def __init__(self, options: Options, told: Told) -> None:
        self._options = options
        self._told = told

    def partitions(self) -> Sequence[InputPartition]:
        """Ranges of equal size."""
        options = self._options
        with closing(options.open()) as engine:
            return planned(engine, options.query, (0, options.until or 0), options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The packed events of a range."""
        if not isinstance(partition, Range):  # Spark makes one up if there are none
            return
        names = [*dict.fromkeys((*self._told.columns, "tags"))]
        for raw in raw_batches(self._options, self._options.query, partition, names):
            yield packed_batch(raw, self._told)


def packed_batch(raw: Raw, told: Told) -> pa.RecordBatch:
    """A batch of the log, packed by projection and bucket."""
    rows = [
        (bucket, number, position, events)
        for number, keying in enumerate(told.keyings)
        for bucket, position, events in _pieces(raw, keying, told)
    ]
    columns = zip(*rows, strict=True) if rows else ((), (), (), ())
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)


def _pieces(raw: Raw, keying: Keying, told: Told) -> Iterator[tuple[int, int, bytes]]:
    rows, keys = keying.rows(raw)
    if not len(rows):
        return
    buckets = buckets_of(keys, told.buckets)
    order = pc.sort_indices(buckets)  # which is stable: events keep their order
    rows = rows.take(order)
    columns = {KEY: keys.take(order), **{name: raw[name].take(rows) for name in told.columns}}
    size = sum(column.nbytes for column in columns.values())
    at_once = max(1, len(rows) * PIECE_BYTES // size)
    counts = {count["values"]: count["counts"] for count in pc.value_counts(buckets).to_pylist()}
    start = 0
    for bucket in sorted(counts):
        end = start + counts[bucket]
        for first in range(start, end, at_once):
            position = columns["position"][first].as_py()
            yield bucket, position, packed(columns, first, min(first + at_once, end))
        start = end
