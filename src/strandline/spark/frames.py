"""The log as a DataFrame, for the jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..engine.open import DEFAULT_LOG
from ..query import Query
from .source.columns import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def events(
    spark: SparkSession,
    url: str,
    *,
    log: str = DEFAULT_LOG,
    query: Query | None = None,
    after: int = 0,
    until: int | None = None,
    columns: tuple[str, ...] | None = None,
) -> DataFrame:
    """The matching events of `(after, until]`, with the columns that are asked for."""
    reader = spark.read.format("strandline").option("url", url).option("log", log).option("after", after)
    if query is not None:
        reader = reader.option("query", query.to_json())
    if until is not None:
        reader = reader.option("until", until)
    if columns is not None:
        reader = reader.schema(", ".join(f"{name} {COLUMNS[name]}" for name in columns))
    return reader.load()
