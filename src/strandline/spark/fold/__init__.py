"""Folding the whole history on executors, with the projections that decide in process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...domain.folding import Fold
from ...domain.projection import Projection
from ...engine.open import DEFAULT_LOG
from ...follow.models.columns import identifier
from ..active import in_any_thread
from ..loading import imported
from .columns import KEY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@in_any_thread
def fold(
    spark: SparkSession,
    url: str,
    projection: str | type[Projection],
    until: int | None = None,
    *,
    log: str = DEFAULT_LOG,
) -> DataFrame:
    """The states of all keys of a projection up to a position, the present head if none is given.

    `projection` is its import path, `school:Course`, for executors import it too. A row has the key fields, the other
    fields with Spark types of their annotations, and `position`: that of the last event folded.
    """
    from .buckets import bucketed
    from .table_function import FoldBucket, table_function

    told = imported(projection)
    function = table_function(told, FoldBucket)
    frame = bucketed(spark, url, [Fold(told.load())], log=log, until=until)
    return function(frame.asTable())


@in_any_thread
def register_fold(spark: SparkSession, name: str, projection: str | type[Projection]) -> None:
    """Let SQL fold a projection: with the table function `name`, and `name_keys(type, tags)`, the keys of an event.

    `SELECT * FROM fold_course(TABLE(SELECT * FROM events, LATERAL fold_course_keys(type, tags))
    PARTITION BY key ORDER BY position)`.
    """
    from .keys_sql import keys_sql
    from .table_function import table_function

    told = imported(projection)
    identifier(name, "function")
    spark.udtf.register(name, table_function(told))
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY FUNCTION {name}_keys(type STRING, tags ARRAY<STRING>)"
        f" RETURNS TABLE({KEY} STRING) RETURN SELECT explode({keys_sql(Fold(told.load()))})"
    )
