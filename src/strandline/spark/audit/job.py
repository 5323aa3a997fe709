"""The audit of a log: recorded conditions against events."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as fn

from ...names import RETAGGED
from ...query import Query
from .. import frames
from ..failures import failures
from ..reach import reachable
from .carried import as_carried, is_own, is_retag, present
from .contention import contention, top
from .judging import FEW, Log, as_of_head, broken
from .nearest import BLOCK
from .questions import ONE_ROW_EACH
from .report import AuditReport
from .tables import open_log, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

SHOWN = 10


def run(spark: SparkSession, url: str, log: str, *, block: int = BLOCK) -> AuditReport:
    """Judge every recorded condition again."""
    began = time.monotonic()
    url = reachable(spark, url)
    with ExitStack() as kept, failures("audit the log", "see what Spark says above, and run it again"):
        engine = open_log(url, log)
        kept.callback(engine.close)
        stats = engine.stats()

        def keep(frame: DataFrame) -> DataFrame:
            kept.callback(_release, frame)
            return frame.persist()

        asked = keep(table(spark, "questions", url, log, stats.head))
        figures = _figures(asked)
        carried = events = keep(present(table(spark, "events", url, log, stats.head)))
        has_retags = events.where(is_retag()).count() > 0
        # Looked for when all events are read: then no event has tags of a retag that is not known.
        retags = engine.count(Query.types(RETAGGED), 0)
        if retags:
            told = frames.events(
                spark, url, log=log, query=Query.types(RETAGGED), columns=("position", "data")
            )
            carried = keep(as_carried(events, told, retags))
        payloads = table(spark, "payloads", url, log, stats.head)
        found = broken(Log(asked, carried, payloads, has_retags, stats.head, block), keep)
        details, violations = _kept(_details(found, asked, carried))
        contended = keep(contention(asked))
        return AuditReport(
            log=str(stats.log),
            head=stats.head,
            refused=stats.refused,
            violations=violations,
            most_contended=top(contended, "near_misses", SHOWN),
            slowest=top(contended, "longest", SHOWN),
            details=details,
            seconds=round(time.monotonic() - began, 3),
            **figures.asDict(),
        )


def _release(frame: DataFrame) -> None:
    with suppress(
        PySparkException, Py4JError, OSError
    ):  # a session that broke off keeps nothing, and has said why
        frame.unpersist()


def _figures(asked: DataFrame) -> Row:
    appends = asked.where(ONE_ROW_EACH)
    counts = {
        "appends": "true",
        "checked": "status = 'recorded'",
        **{status: f"status = '{status}'" for status in ("unconditional", "not_recorded", "not_auditable")},
        "with_where": "has_where",
        "near_misses": "distance > 0",
    }
    (row,) = appends.agg(
        *(fn.count_if(fn.expr(holds)).alias(name) for name, holds in counts.items()),
        fn.coalesce(fn.max("distance"), fn.lit(0)).alias("longest_distance"),
    ).collect()
    return row


def _details(found: DataFrame, asked: DataFrame, carried: DataFrame) -> DataFrame:
    """One row for each append that should have been refused, with the event that shows it."""
    time_of_append = fn.timestamp_micros("recorded_at").alias("recorded_at")
    parts = asked.where("item = 0").select("first", "last", "head", time_of_append, "part", "after")
    return (
        found.join(parts, ["first", "part"])
        .join(carried, "position")
        .where(as_of_head())
        .select(
            *("first", "last", "recorded_at", "part", "item", "after", "position", "type"),
            fn.filter("tags", is_own).alias("tags"),
        )
    )


def _kept(details: DataFrame) -> tuple[DataFrame, int]:
    """The details, no longer dependent on the log, and how many there are."""
    rows = details.orderBy("first").limit(FEW).collect()
    if len(rows) < FEW:
        return details.sparkSession.createDataFrame(rows, details.schema), len(rows)
    kept = details.orderBy("first").localCheckpoint()
    return kept, kept.count()
