"""Audit: proves over the whole log that every recorded condition held."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...engine.open import DEFAULT_LOG
from ..active import in_any_thread
from .report import AuditReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["AuditReport", "audit"]


@in_any_thread
def audit(spark: SparkSession, url: str, *, log: str = DEFAULT_LOG) -> AuditReport:
    """Judge every recorded condition of the log again, with the tags that events had at the time."""
    from .job import run

    return run(spark, url, log)
