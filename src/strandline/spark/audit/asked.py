"""The different items that appends asked for, `where` aside: what types and tags of an event can tell."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from .questions import EVERYTHING, SEPARATOR


def items(asked: DataFrame) -> DataFrame:
    """One row for each key of the questions, with the tag to look it up by (`anchor`, null if it has no tags)."""
    fields = fn.split("key", SEPARATOR, -1)
    different = (
        asked.select("key")
        .distinct()
        .select(
            "key",
            texts(fields[0]).alias("needs"),  # all tags that an event must carry, reserved ones included
            texts(fields[1]).alias("types"),
            texts(fields[2]).alias("excluded"),
            (fields[3] == EVERYTHING).alias("everything"),
        )
    )
    first = fn.get("needs", fn.lit(0))
    return different.join(_rarest(different), "key", "left").withColumn(
        "anchor", fn.coalesce("rarest", first)
    )


def _rarest(different: DataFrame) -> DataFrame:
    """Of each item with several tags the one that the fewest such items ask for.

    What looking items up costs is, tag by tag, its events times the items that are looked up by it. A tag that
    everything has, such as the tenant, is in all items, and the anchor of none.
    """
    several = different.where(fn.size("needs") > 1).select("key", fn.explode("needs").alias("tag"))
    rarest = fn.min_by("tag", fn.struct("count", "tag")).alias("rarest")
    return several.join(several.groupBy("tag").count(), "tag").groupBy("key").agg(rarest)


def texts(joined: Column) -> Column:
    """The list that was joined by newlines."""
    return fn.when(joined == "", fn.array().cast("ARRAY<STRING>")).otherwise(fn.split(joined, "\n"))
