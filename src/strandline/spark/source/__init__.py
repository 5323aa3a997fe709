"""`format("strandline")`: a log as a Spark data source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import MissingDependency
from ..active import activate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Let a session know `format("strandline")`; `strandline.spark.session` does it by itself.

    The session is then the active one of this thread, so that the thread can write with `df.write` too.
    """
    try:
        from .data_source import StrandlineSource
    except ImportError as error:
        if (error.name or "").startswith("strandline"):
            raise
        raise MissingDependency(
            f"the pipeline needs {error.name or error}, which cannot be loaded",
            hint="pip install 'strandline[spark]'",
        ) from error
    spark.dataSource.register(StrandlineSource)
    activate(spark)
