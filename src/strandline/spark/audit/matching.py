"""Which events match which items, as far as types and tags tell."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from ...names import RESERVED


def matches(carried: DataFrame, items: DataFrame) -> DataFrame:
    """Each event with each item that it matches."""
    return _pairs(carried, fn.col("tags"), items).where(_fits_type() & _carries("tags"))


def concerned(carried: DataFrame, items: DataFrame) -> DataFrame:
    """Each retag of an event (`old` are the tags before it) with each item that matches the event before or after it."""
    pairs = _pairs(carried.where("old is not null"), fn.array_union("old", "tags"), items)
    return pairs.where(_fits_type() & (_carries("old") | _carries("tags")))


def _pairs(carried: DataFrame, tags: Column, items: DataFrame) -> DataFrame:
    by_tag = carried.withColumn("anchor", fn.explode(tags)).join(items, "anchor")
    # Few items have no tags: there are hardly more of them than commands.
    untagged = fn.broadcast(items.where("anchor is null"))
    return by_tag.unionByName(carried.crossJoin(untagged))


def _carries(tags: str) -> Column:
    return fn.size(fn.array_except("needs", tags)) == 0


def _fits_type() -> Column:
    named = fn.array_contains("types", fn.col("type"))
    ours = fn.col("type").startswith(RESERVED) & ~fn.col("everything")
    others = (fn.size("types") == 0) & ~fn.array_contains("excluded", fn.col("type")) & ~ours
    return named | others
