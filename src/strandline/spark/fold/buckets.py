"""The log divided by key into buckets, each for one task, in which events keep the order of the log.

Events travel packed, some hundred in a row of Spark's: it moves and sorts few rows, and looks into none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ...arrow import Raw, tag_lists
from ...domain.folding import Fold
from ...query import Query
from ..frames import fixed_head
from ..reach import reachable
from ..source.batch import planned
from ..source.options import Options
from ..source.ranges import Range
from ..source.reading import raw_batches
from .columns import columns_for
from .keying import Keying, buckets_of
from .rows import packed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "strandline-fold"
SCHEMA = "bucket INT, position BIGINT, events BINARY"
FEWEST_EVENTS = 10_000  # a task for less costs more than it saves
PIECE_BYTES = 1 << 16  # a row of Spark: large ones a JVM must find whole regions of its heap for
MOST_EVENTS = 500_000  # each may have a key of its own, and a task keeps the states of its keys
MOST_STATES = 1_000_000  # of all projections
SPARKS_OWN = 200
PIECES_BYTES = 8 << 20  # in one batch
EVENT_BYTES = 100  # beside the data

ROW_BITS = 32

_ARROW = pa.schema({"bucket": pa.int32(), "position": pa.int64(), "events": pa.binary()})


class Told(msgspec.Struct, frozen=True):
    """What a read is told beside where the log is."""

    keyings: tuple[Keying, ...]
    columns: tuple[str, ...]
    buckets: int


def bucketed(
    spark: SparkSession, url: str, folds: Sequence[Fold], *, log: str, until: int | None
) -> DataFrame:
    """What the projections handle up to a position, or the present head, in one pass over the log.

    A row has events of one bucket, for all projections; a task gets a bucket, in the order of positions.
    """
    address = reachable(spark, url)
    head = fixed_head(address, log, until)
    wanted = _wanted(str(spark.conf.get("spark.sql.shuffle.partitions")))
    count = bucket_count(head, wanted, len(folds))
    told = Told(tuple(map(Keying.of, folds)), columns_for(folds), count)
    types = sorted({name for fold in folds for name in fold.types})
    spark.dataSource.register(FoldSource)
    reader = spark.read.format(NAME).options(url=address, log=log, until=head)
    reader = reader.options(query=Query.types(*types).to_json(), told=msgspec.json.encode(told).decode())
    divided = reader.schema(SCHEMA).load().repartitionById(count, "bucket")
    return divided.sortWithinPartitions("position")


def _wanted(setting: str) -> int:
    return int(setting) if setting.isdecimal() else SPARKS_OWN  # it may be "auto"


def bucket_count(events: int, wanted: int, projections: int = 1) -> int:
    """As many as Spark would make, but no tiny ones, and none with more keys than fit into memory."""
    large = max(-(-events // MOST_EVENTS), -(-events * projections // MOST_STATES))
    return max(1, min(wanted, -(-events // FEWEST_EVENTS)), large)


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
    """Packed events of one bucket, from a position on."""

    bucket: int
    position: int
    events: pa.Buffer


def packed_batches(raw: Raw, told: Told) -> Iterator[pa.RecordBatch]:
    """A batch of the log, packed by bucket."""
    pieces: list[Piece] = []
    size = 0
    for piece in _pieces(raw, told):
        pieces.append(piece)
        size += piece.events.size
        if size >= PIECES_BYTES:
            yield _batch(pieces)
            pieces, size = [], 0
    if pieces:
        yield _batch(pieces)


def _batch(pieces: Sequence[Piece]) -> pa.RecordBatch:
    buckets, positions, events = zip(*pieces, strict=True)
    ends = pa.array([0, *accumulate(one.size for one in events)], pa.int32())
    # Arrow would let a buffer for them grow again and again.
    joined = pa.Array.from_buffers(
        pa.binary(), len(pieces), [None, ends.buffers()[1], pa.py_buffer(b"".join(events))]
    )
    arrays = [pa.array(buckets, pa.int32()), pa.array(positions, pa.int64()), joined]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)


def _pieces(raw: Raw, told: Told) -> Iterator[Piece]:
    """An event is in a bucket once, whichever projections have keys of it there, and however many."""
    tags = tag_lists(raw["tags"])
    found = [_places(*keying.rows(raw, tags), told.buckets) for keying in told.keyings]
    places = pc.run_end_encode(pa.concat_arrays([places for places, _ in found]).sort()).values
    buckets = pc.shift_right(places, ROW_BITS)
    rows = pc.bit_wise_and(places, (1 << ROW_BITS) - 1)
    keys = [_lists(places, *one) for one in found]
    start = 0
    for end in _ends(buckets, pc.binary_length(raw["data"]).take(rows)):
        # Piece by piece: an event with keys in many buckets is in memory once for each.
        chosen = rows.slice(start, end - start)
        columns = {name: raw[name].take(chosen) for name in told.columns}
        events = packed(columns, [lists.slice(start, end - start) for lists in keys])
        yield Piece(buckets[start].as_py(), columns["position"][0].as_py(), events.serialize())
        start = end


def _places(rows: pa.Array, keys: pa.Array, buckets: int) -> tuple[pa.Array, pa.Array]:
    """Keys in the order of buckets and then of the log, each after its bucket and row as one number."""
    numbers = buckets_of(keys, buckets)
    order = pc.sort_indices(numbers)  # which is stable: rows keep their order
    places = pc.bit_wise_or(pc.shift_left(numbers.cast(pa.int64()), ROW_BITS), rows.cast(pa.int64()))
    return places.take(order), keys.take(order)


def _lists(places: pa.Array, of_keys: pa.Array, keys: pa.Array) -> pa.ListArray:
    """The keys of each place, both in the same order."""
    runs = pc.run_end_encode(pa.concat_arrays([places, of_keys]).sort()).run_ends  # a place, and its keys
    numbers = pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int32()), len(places)))
    ends = pa.concat_arrays([pa.array([0], pa.int32()), pc.subtract(runs, numbers)])
    return pa.ListArray.from_arrays(ends, keys)


def _ends(buckets: pa.Array, sizes: pa.Array) -> list[int]:
    """Where pieces end: with their bucket, and when they are large enough."""
    if not len(buckets):
        return []
    bytes_before = pc.cumulative_sum(pc.add(sizes.cast(pa.int64()), EVENT_BYTES))
    label = pc.add(pc.divide(bytes_before, PIECE_BYTES), pc.multiply(buckets.cast(pa.int64()), 1 << 40))
    return [*pc.run_end_encode(label).run_ends.to_pylist()]
