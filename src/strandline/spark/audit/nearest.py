"""The nearest position after a question's `after` at which something stands under the same key.

Marks and questions of a key are put in order together and gone through once, backwards, so that the work is linear in
both however many of them share a key.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

BLOCK = 4_000_000  # positions of a key that one task goes through


def nearest(
    asked: DataFrame, marks: DataFrame, kinds: Sequence[str], head: int, block: int = BLOCK
) -> DataFrame:
    """The questions, each with the nearest mark of every kind after its `after` (null: none).

    `marks` have a `key`, and a position in the column of their kind.
    """
    rows = (
        asked.withColumn("at", fn.col("after"))
        .withColumn("is_question", fn.lit(True))
        .unionByName(
            marks.withColumn("at", fn.coalesce(*kinds)).withColumn("is_question", fn.lit(False)),
            allowMissingColumns=True,
        )
        .withColumn("block", fn.floor(fn.col("at") / block).cast("bigint"))
    )
    if head > block:
        rows = rows.unionByName(_firsts_of_later_blocks(rows, kinds), allowMissingColumns=True)
    # A mark at `after` itself is none after it, so the question comes first.
    order = Window.partitionBy("key", "block").orderBy(fn.desc("at"), fn.desc("is_question"))
    so_far = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    found = rows.withColumns({kind: fn.min(kind).over(so_far) for kind in kinds})
    return found.where("is_question").drop("at", "is_question", "block")


def _firsts_of_later_blocks(rows: DataFrame, kinds: Sequence[str]) -> DataFrame:
    """A mark at the end of each block that stands for all marks of the blocks after it."""
    later = Window.partitionBy("key").orderBy(fn.desc("block")).rowsBetween(Window.unboundedPreceding, -1)
    firsts = rows.groupBy("key", "block").agg(*(fn.min(kind).alias(kind) for kind in kinds))
    return (
        firsts.withColumns({kind: fn.min(kind).over(later) for kind in kinds})
        .where(fn.coalesce(*kinds).isNotNull())
        .withColumns({"at": _beyond(), "is_question": fn.lit(False)})
    )


def _beyond() -> Column:
    return fn.lit(2**63 - 1).cast("bigint")
