"""`format("strandline")`: a log as a Spark data source."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Let a session know `format("strandline")`; `strandline.spark.session` does it by itself."""
    from .data_source import StrandlineSource

    spark.dataSource.register(StrandlineSource)
