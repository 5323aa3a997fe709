"""The active session: the one that Spark itself finds in a thread."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Job = TypeVar("Job", bound=Callable[..., Any])


def activate(spark: SparkSession) -> None:
    """Make the session the active one of this thread.

    Spark looks up the format of a write in the active session of the calling thread. Only the thread that started
    the session has one.
    """
    ours = getattr(spark, "_jsparkSession", None)
    if ours is not None:  # through Spark Connect, the server keeps the session
        spark._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(ours)  # type: ignore[union-attr]


def in_any_thread(function: Job) -> Job:
    """Let a job run in any thread. Its first parameter is the session."""

    @functools.wraps(function)
    def run(spark: SparkSession, *args: Any, **kwargs: Any) -> Any:
        activate(spark)
        return function(spark, *args, **kwargs)

    return cast("Job", run)
