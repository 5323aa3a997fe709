"""What the report tells, counted by Spark: only sums and the first few of each list come to the driver."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql import functions as fn

from ...event import from_microseconds, to_microseconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST = 20
MOMENTS = 70
SECOND, MINUTE, HOUR, DAY = 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000
STEPS = (
    *(size * SECOND for size in (1, 5, 15)),
    *(size * MINUTE for size in (1, 5, 15)),
    *(size * HOUR for size in (1, 3, 6, 12)),
    *(size * DAY for size in (1, 7, 28, 364, 3_640)),
)
"""How long a piece of time may be: what people think in, each a multiple of those before it."""
MONDAY = 4 * DAY  # the first one after 1970 began: weeks start on Mondays
SERIES = 5
OTHER = "other types"
SNAPSHOT_FROM = 200
"""Events of one tag from which on a snapshot shortens a fold noticeably."""


class Moment(msgspec.Struct, frozen=True):
    """How many events of a type were recorded in a piece of time."""

    number: int
    type: str
    events: int


class OverTime(msgspec.Struct, frozen=True):
    """Events in equal pieces of time."""

    start: datetime
    step: timedelta
    moments: int
    counts: list[Moment]


class TypeCount(msgspec.Struct, frozen=True):
    """A type of events."""

    type: str
    events: int
    tags: float
    """How many tags such an event has, on average."""


class Prefix(msgspec.Struct, frozen=True):
    """The tags that begin alike: things of one kind."""

    prefix: str
    tags: int
    events: int
    most: int


class HotTag(msgspec.Struct, frozen=True):
    """A tag of many events."""

    tag: str
    events: int
    share: float


class Shape(msgspec.Struct, frozen=True):
    """Which kinds of tags events of a type carry together."""

    type: str
    shape: str
    events: int


class Figures(msgspec.Struct, frozen=True):
    """All of it."""

    over_time: OverTime | None
    types: list[TypeCount]
    prefixes: list[Prefix]
    hot: list[HotTag]
    snapshots: int
    """Tags with so many events that folding them is worth a snapshot."""
    spread: list[tuple[int, int]]
    """For each power of two: how many tags have that many events, up to the next."""
    shapes: list[Shape]


def figures(events: DataFrame) -> Figures:
    """Count a table of events with `type`, `tags` and `recorded_at`."""
    total = events.count()
    types = [
        TypeCount(row.type, row.events, round(row.tags, 2))
        for row in events.groupBy("type")
        .agg(fn.count("*").alias("events"), fn.avg(fn.size("tags")).alias("tags"))
        .orderBy(fn.desc("events"), "type")
        .limit(MOST)
        .collect()
    ]
    per_tag = (
        events.select(fn.explode("tags").alias("tag")).groupBy("tag").agg(fn.count("*").alias("events"))
    ).persist()
    try:
        return Figures(
            _over_time(events, [row.type for row in types[:SERIES]]) if total else None,
            types,
            _prefixes(per_tag),
            [
                HotTag(row.tag, row.events, row.events / total)
                for row in per_tag.orderBy(fn.desc("events"), "tag").limit(MOST).collect()
            ],
            per_tag.where(fn.col("events") >= SNAPSHOT_FROM).count(),
            _spread(per_tag),
            _shapes(events),
        )
    finally:
        per_tag.unpersist()


def prefix_of(tag: Any) -> Any:
    """What comes before the first colon, the whole tag if there is none."""
    return fn.substring_index(tag, ":", 1)


def _over_time(events: DataFrame, shown: list[str]) -> OverTime:
    time = fn.unix_micros("recorded_at")
    (edge,) = events.agg(fn.min(time).alias("first"), fn.max(time).alias("last")).collect()
    step = next((step for step in STEPS if (edge.last - edge.first) // step < MOMENTS), STEPS[-1])
    start = max(edge.first - (edge.first - MONDAY) % step, to_microseconds(datetime.min.replace(tzinfo=UTC)))
    type_ = fn.when(fn.col("type").isin(shown), fn.col("type")).otherwise(OTHER)
    rows = (
        events.groupBy(fn.floor((time - start) / step).cast("INT").alias("number"), type_.alias("type"))
        .agg(fn.count("*").alias("events"))
        .collect()
    )
    moments = max(row.number for row in rows) + 1
    counts = [Moment(row.number, row.type, row.events) for row in rows]
    return OverTime(from_microseconds(start), timedelta(microseconds=step), moments, counts)


def _prefixes(per_tag: DataFrame) -> list[Prefix]:
    rows = (
        per_tag.groupBy(prefix_of(fn.col("tag")).alias("prefix"))
        .agg(fn.count("*").alias("tags"), fn.sum("events").alias("events"), fn.max("events").alias("most"))
        .orderBy(fn.desc("events"), "prefix")
        .limit(MOST)
        .collect()
    )
    return [Prefix(row.prefix, row.tags, row.events, row.most) for row in rows]


def _spread(per_tag: DataFrame) -> list[tuple[int, int]]:
    power = fn.floor(fn.log2(fn.col("events"))).cast("INT")
    rows = per_tag.groupBy(power.alias("power")).agg(fn.count("*").alias("tags")).orderBy("power").collect()
    return [(row.power, row.tags) for row in rows]


def _shapes(events: DataFrame) -> list[Shape]:
    kinds = fn.array_join(fn.array_sort(fn.transform("tags", prefix_of)), " + ")
    rows = (
        events.groupBy("type", kinds.alias("shape"))
        .agg(fn.count("*").alias("events"))
        .orderBy(fn.desc("events"), "type", "shape")
        .limit(MOST)
        .collect()
    )
    return [Shape(row.type, row.shape, row.events) for row in rows]
