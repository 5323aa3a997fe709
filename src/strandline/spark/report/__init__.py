"""Report: one page about the events of a log and the boundaries of its decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ...engine.open import DEFAULT_LOG
from ..active import in_any_thread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Reported", "report"]


class Reported(msgspec.Struct, frozen=True):
    """Where the page is, and what it is about."""

    path: str
    head: int
    appends: int
    types: int
    tags: int
    seconds: float


@in_any_thread
def report(spark: SparkSession, url: str, out: str = "report.html", *, log: str = DEFAULT_LOG) -> Reported:
    """Write a page about the log to `out`: plots and tables in one HTML file that needs nothing else."""
    from .job import run

    return run(spark, url, out, log)
