"""Events with the tags that they carried, and from when until when they carried them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from ...names import RESERVED, RETAGGED, stream_tag, subject_tag
from ...retag import Change
from .asked import texts

_TAGS = "ARRAY<STRING>"
_VERSIONS = f"ARRAY<STRUCT<tags: {_TAGS}, since: BIGINT, until: BIGINT, old: {_TAGS}>>"
_CHANGES = f"changes ARRAY<STRUCT<position: BIGINT, removed: {_TAGS}, added: {_TAGS}>>"
FEW = 100  # so few retags that every task may have them all

Version = tuple[list[str], int, int | None, list[str] | None]


def present(events: DataFrame) -> DataFrame:
    """Every event with its present tags, reserved ones included, as if it had always carried them."""
    marks = (fn.concat(fn.lit(stream_tag("")), "stream"), fn.concat(fn.lit(subject_tag("")), "subject"))
    tags = fn.array_compact(fn.concat(texts(fn.col("tags")), fn.array(*marks)))
    nothing = fn.lit(None)
    return events.select(
        *("position", "type", tags.alias("tags")),
        fn.col("position").alias("since"),
        nothing.cast("BIGINT").alias("until"),
        nothing.cast(_TAGS).alias("old"),
    )


def as_carried(events: DataFrame, retags: DataFrame, count: int) -> DataFrame:
    """Every event once for each set of tags that it ever carried; `old` is the one before."""
    changes = (
        retags.select(
            fn.col("position").alias("retag"),
            fn.explode(fn.from_json("data", _CHANGES).changes).alias("change"),
        )
        .groupBy(fn.col("change.position").alias("position"))
        .agg(
            fn.sort_array(fn.collect_list(fn.struct("retag", "change.removed", "change.added"))).alias(
                "changes"
            )
        )
    )
    changes = fn.broadcast(changes) if count <= FEW else changes
    each = fn.udf(versions, _VERSIONS, useArrow=False)("position", "tags", "changes")
    changed = events.join(changes, "position").select("position", "type", fn.inline(each))
    return events.join(changes, "position", "left_anti").unionByName(changed)


def versions(
    position: int, tags: list[str], changes: list[tuple[int, list[str], list[str]]]
) -> list[Version]:
    """What an event carried, and when: each change is undone, the newest first."""
    found: list[Version] = []
    until = None
    for retag, removed, added in reversed(changes):
        old = list(Change(position, tuple(removed), tuple(added)).undo(tuple(tags)))
        found.append((tags, retag, until, old))
        tags, until = old, retag
    return [*found, (tags, position, until, None)]


def is_retag() -> Column:
    """Whether an event is a retag."""
    return fn.col("type") == RETAGGED


def is_own(tag: Column) -> Column:
    """Whether a tag is a user's."""
    return ~tag.startswith(RESERVED)
