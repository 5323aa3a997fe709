"""The log divided by key into buckets, each for one task, in which events keep the order of the log.

Events travel packed, some hundred in a row of Spark's: it moves and sorts few rows, and looks into none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

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
SCHEMA = "bucket INT, projection INT, position BIGINT, last BIGINT, events BINARY"
FEWEST_EVENTS = 10_000  # a task for less costs more than it saves
PIECE_BYTES = 1 << 16  # a row of Spark: large ones a JVM must find whole regions of its heap for
MOST_EVENTS = 500_000  # each may have a key of its own, and a task keeps the states of its keys
SPARKS_OWN = 200
PIECES_BYTES = 8 << 20  # in one batch
EVENT_BYTES = 100  # beside the data

_ARROW = pa.schema(
    {
        "bucket": pa.int32(),
        "projection": pa.int32(),
        "position": pa.int64(),
        "last": pa.int64(),
        "events": pa.binary(),
    }
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
    count = bucket_count(head, _wanted(str(spark.conf.get("spark.sql.shuffle.partitions"))))
    told = Told(tuple(map(Keying.of, folds)), columns_for(folds), count)
    types = sorted({name for fold in folds for name in fold.types})
    spark.dataSource.register(FoldSource)
    reader = spark.read.format(NAME).options(url=address, log=log, until=head)
    reader = reader.options(query=Query.types(*types).to_json(), told=msgspec.json.encode(told).decode())
    divided = reader.schema(SCHEMA).load().repartitionById(count, "bucket")
    # An event with many keys may begin several pieces; of these the one that goes on to later events is the last.
    return divided.sortWithinPartitions("projection", "position", "last")


def _wanted(setting: str) -> int:
    return int(setting) if setting.isdecimal() else SPARKS_OWN  # it may be "auto"


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
            yield from packed_batches(raw, self._told)


class Piece(NamedTuple):
    """Packed events of one projection in one bucket, from a position to another."""

    bucket: int
    projection: int
    position: int
    last: int
    events: bytes


def packed_batches(raw: Raw, told: Told) -> Iterator[pa.RecordBatch]:
    """A batch of the log, packed by projection and bucket."""
    pieces: list[Piece] = []
    size = 0
    for number, keying in enumerate(told.keyings):
        for piece in _pieces(raw, number, keying, told):
            pieces.append(piece)
            size += len(piece.events)
            if size >= PIECES_BYTES:
                yield _batch(pieces)
                pieces, size = [], 0
    if pieces:
        yield _batch(pieces)


def _batch(pieces: Sequence[Piece]) -> pa.RecordBatch:
    columns = zip(zip(*pieces, strict=True), _ARROW, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(values, field.type) for values, field in columns], schema=_ARROW
    )


def _pieces(raw: Raw, number: int, keying: Keying, told: Told) -> Iterator[Piece]:
    rows, keys = keying.rows(raw)
    buckets = buckets_of(keys, told.buckets)
    order = pc.sort_indices(buckets)  # which is stable: events keep their order
    rows, keys, buckets = rows.take(order), keys.take(order), buckets.take(order)
    start = 0
    for end in _ends(buckets, pc.binary_length(raw["data"]).take(rows)):
        chosen = rows.slice(start, end - start)
        columns = {name: raw[name].take(chosen) for name in told.columns}
        positions = columns["position"]
        yield Piece(
            buckets[start].as_py(),
            number,
            positions[0].as_py(),
            positions[-1].as_py(),
            packed({KEY: keys.slice(start, end - start), **columns}),
        )
        start = end


def _ends(buckets: pa.Array, sizes: pa.Array) -> list[int]:
    """Where pieces end: with their bucket, and when they are large enough."""
    if not len(buckets):
        return []
    bytes_before = pc.cumulative_sum(pc.add(sizes.cast(pa.int64()), EVENT_BYTES))
    label = pc.add(pc.divide(bytes_before, PIECE_BYTES), pc.multiply(buckets.cast(pa.int64()), 1 << 40))
    return [*pc.run_end_encode(label).run_ends.to_pylist()]
