"""Which recorded conditions did not hold.

Types and tags settle nearly everything, and Spark settles that by itself. The log's own match function has the last word
on items with a `where` that have a candidate in range.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from .asked import items
from .matching import concerned, matches
from .nearest import nearest
from .payload import does_match

FEW = 100_000  # so few rows that every task may have them all

Keep = Callable[[DataFrame], DataFrame]
"""Keeps what is used several times."""

_ANSWER = ("first", "part", "position", "item")


class Log(NamedTuple):
    """What there is to judge with."""

    asked: DataFrame  # what appends asked
    carried: DataFrame  # the events with their tags
    payloads: DataFrame
    has_retags: bool
    head: int
    block: int


def broken(log: Log, keep: Keep) -> DataFrame:
    """Each append that should have been refused: the part that did not hold, and the first position that shows it."""
    asked = log.asked.where("after < head")
    wanted = keep(items(asked))
    near = keep(_near(asked, wanted, log))
    (doubts,) = near.agg(*(fn.count_if(fn.expr(holds)).alias(holds) for holds in _JUDGES)).collect()
    found = [
        near.where(f"not is_filtered and {holds}").withColumn("position", fn.col(kind))
        for kind, holds in _SETTLED.items()
    ]
    for holds, judge in _JUDGES.items():
        if doubts[holds]:
            doubtful = near.where(holds).join(wanted, "key")
            found.append(judge(fn.broadcast(doubtful) if doubts[holds] < FEW else doubtful, log))
    answers = reduce(DataFrame.unionByName, (answer.select(*_ANSWER) for answer in found))
    first = fn.min(fn.struct("part", "position", "item"))
    return answers.groupBy("first").agg(first.alias("found")).select("first", "found.*")


def _near(asked: DataFrame, wanted: DataFrame, log: Log) -> DataFrame:
    """The questions with a match in their range, as far as types and tags tell.

    It is `settled` if the event always had the same tags, `unsettled` if it matched at some time, and `retagged` is a
    retag of an event that matches before or after it.
    """
    position, retag, nothing = fn.col("position"), fn.col("since"), fn.lit(None).cast("BIGINT")
    marks = matches(log.carried, wanted).select(
        "key",
        fn.when(_is_settled(), position).alias("settled"),
        fn.when(~_is_settled(), position).alias("unsettled"),
        nothing.alias("retagged"),
    )
    if log.has_retags:
        retagged = concerned(log.carried, wanted).select("key", retag.alias("retagged"))
        marks = marks.unionByName(retagged, allowMissingColumns=True)
    questions = asked.select("first", "head", "part", "after", "item", "is_filtered", "key", "condition")
    found = nearest(questions, marks, ("settled", "unsettled", "retagged"), log.head, log.block)
    return found.where(fn.least("settled", "unsettled", "retagged") <= fn.col("head"))


def _is_settled() -> Column:
    return (fn.col("since") == fn.col("position")) & fn.col("until").isNull()


def as_of_head() -> Column:
    """Whether the event carried these tags when the head was `head`."""
    return (fn.col("since") <= fn.col("head")) & (
        fn.col("until").isNull() | (fn.col("head") < fn.col("until"))
    )


def _by_tags(doubtful: DataFrame, log: Log) -> DataFrame:
    """Whether an event that was retagged at some time matched at that time."""
    return _in_range(matches(log.carried.where(~_is_settled()), doubtful))


def _by_payload(doubtful: DataFrame, log: Log) -> DataFrame:
    """Whether an event that matches by types and tags matches by its payload."""
    candidates = _in_range(matches(log.carried, doubtful)).join(log.payloads, "position")
    return candidates.where(does_match("tags"))


def _in_range(matched: DataFrame) -> DataFrame:
    is_there = (fn.col("position") > fn.col("after")) & (fn.col("position") <= fn.col("head"))
    return matched.where(is_there & as_of_head())


def _by_retag(doubtful: DataFrame, log: Log) -> DataFrame:
    """Whether an event that was retagged matches by its payload before or after it."""
    retag = fn.col("since")
    in_range = concerned(log.carried, doubtful).where((retag > fn.col("after")) & (retag <= fn.col("head")))
    matching = in_range.join(log.payloads, "position").where(does_match("old") | does_match("tags"))
    return matching.withColumn("position", retag)


# `unless_exists` is recorded as a part after 0. It asks only for what is there, retagged or not.
_SETTLED = {"settled": "settled <= head", "retagged": "after > 0 and retagged <= head"}
_JUDGES: dict[str, Callable[[DataFrame, Log], DataFrame]] = {
    "is_filtered and least(settled, unsettled) <= head": _by_payload,
    "not is_filtered and unsettled <= head": _by_tags,
    "is_filtered and after > 0 and retagged <= head": _by_retag,
}
