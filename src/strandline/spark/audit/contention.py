"""Where appends came close to each other: how far the log had moved on between a decision's read and its append.

What conditions that held say about contention: every position in between is an event that might have matched.
"""

from __future__ import annotations

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from ...names import key_tag, stream_tag, subject_tag
from .questions import SEPARATOR


class Contended(msgspec.Struct, frozen=True):
    """What appends depended on, how many did, how many of them the log had moved past, and how far."""

    tags: str
    types: str
    appends: int
    near_misses: int
    longest: int
    mean: float

    @property
    def boundary(self) -> str:
        """What they depended on, in a line."""
        return f"{self.tags} · {self.types}"


def contention(asked: DataFrame) -> DataFrame:
    """A row for each item that appends with a read behind them depended on."""
    distance = fn.greatest(fn.col("head") - fn.col("after"), fn.lit(0))
    return (
        asked.where("after > 0")
        .groupBy("key")
        .agg(
            fn.count_if(fn.lit(True)).alias("appends"),
            fn.count_if(distance > 0).alias("near_misses"),
            fn.max(distance).alias("longest"),
            fn.avg(distance).alias("mean"),
        )
    )


def top(rows: DataFrame, by: str, count: int) -> tuple[Contended, ...]:
    """The first rows, those with the most first."""
    other = "longest" if by == "near_misses" else "near_misses"
    found = rows.where("near_misses > 0").orderBy(fn.desc(by), fn.desc(other), "key").limit(count).collect()
    return tuple(
        Contended(*label(row.key), row.appends, row.near_misses, row.longest, row.mean) for row in found
    )


def label(key: str) -> tuple[str, str]:
    """The tags and the types of a query item, for people."""
    tags, types, excluded, _ = (field.split("\n") if field else [] for field in key.split(SEPARATOR))
    words = {stream_tag(""): "stream ", subject_tag(""): "subject ", key_tag(""): "key "}
    shown = []
    for tag in tags:
        prefix = next((prefix for prefix in words if tag.startswith(prefix)), "")
        shown.append(words.get(prefix, "") + tag.removeprefix(prefix))
    kinds = ", ".join(types) or ("any type" + (f" but {', '.join(excluded)}" if excluded else ""))
    return " + ".join(shown) or "no tag", kinds
