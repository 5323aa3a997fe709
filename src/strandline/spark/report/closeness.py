"""How close appends came to each other: the contention map."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql import functions as fn

from ...names import RESERVED
from ..audit.contention import Contended, contention, top
from ..audit.questions import ONE_ROW_EACH, SEPARATOR

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST = 15


class Cell(msgspec.Struct, frozen=True):
    """Appends of one kind of boundary, between whose read and write so many events came (a power of two; -1: none)."""

    boundary: str
    power: int
    appends: int


class Closeness(msgspec.Struct, frozen=True):
    """What conditions that held say about contention."""

    status: dict[str, int]
    """Appends by what is recorded of their condition."""
    sizes: list[tuple[int, int]]
    """For each power of two: how many appends have that many events, up to the next."""
    cells: list[Cell]
    most_contended: list[Contended]


def closeness(asked: DataFrame) -> Closeness:
    """Count the questions of an audit."""
    power_of_size = fn.floor(fn.log2(fn.col("last") - fn.col("head"))).cast("INT")
    kinds = asked.where(ONE_ROW_EACH).groupBy("status", power_of_size.alias("power"))
    status, sizes = Counter[str](), Counter[int]()
    for row in kinds.agg(fn.count("*").alias("appends")).collect():
        status[row.status] += row.appends
        sizes[row.power] += row.appends
    # A key is the item's tags, one a line, then its types and more; a kind of boundary is what their prefixes say.
    tags = fn.split(fn.split("key", SEPARATOR).getItem(0), "\n")
    kind = fn.array_join(
        fn.array_sort(
            fn.transform(tags, lambda tag: fn.ltrim(fn.substring_index(tag, ":", 1), fn.lit(RESERVED)))
        ),
        " + ",
    )
    distance = fn.greatest(fn.col("head") - fn.col("after"), fn.lit(0))
    power = fn.when(distance == 0, -1).otherwise(fn.floor(fn.log2(distance))).cast("INT")
    rows = (
        asked.where("after > 0")
        .groupBy(kind.alias("boundary"), power.alias("power"))
        .agg(fn.countDistinct("first").alias("appends"))
        .orderBy(fn.desc("appends"))
        .limit(MOST * 40)
        .collect()
    )
    most = top(contention(asked), "near_misses", MOST)
    return Closeness(
        dict(status),
        sorted(sizes.items()),
        [Cell(row.boundary, row.power, row.appends) for row in rows],
        list(most),
    )
