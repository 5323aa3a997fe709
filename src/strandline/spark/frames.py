"""The log as a DataFrame, for the jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..append import check_position
from ..engine.open import DEFAULT_LOG, open_engine
from ..errors import InvalidInput
from ..query import Query
from .reach import reachable
from .source.columns import COLUMNS, SCHEMA

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
    columns: Sequence[str] | None = None,
    binary: bool = False,
    partitions: int | None = None,
) -> DataFrame:
    """The matching events of `(after, until]`, with the columns that are asked for; `binary`: data as bytes.

    The head is fixed here: however often the frame is used, it has the same events.
    """
    names = tuple(COLUMNS if columns is None else columns)
    for name in names:
        if name not in COLUMNS:
            raise InvalidInput(f"the log has no column {name!r:.80}", hint=f"its columns are {SCHEMA}")
    address = reachable(spark, url)
    options: dict[str, str | int] = {
        "url": address,
        "log": log,
        "after": check_position(after, "after"),
        "until": fixed_head(address, log, until),
        **({} if query is None else {"query": query.to_json()}),
        **({} if partitions is None else {"partitions": partitions}),
    }
    kinds = COLUMNS | {"data": "BINARY"} if binary else COLUMNS
    reader = spark.read.format("strandline").options(**options)
    return reader.schema(", ".join(f"{name} {kinds[name]}" for name in names)).load()


def fixed_head(url: str, log: str, until: int | None) -> int:
    """Where the read ends. What is wrong with the log is said here, and not by a task in a trace of Spark's."""
    engine = open_engine(url, log=log, clock=None, record_conditions=True, create=False)
    try:
        head = engine.head()
    finally:
        engine.close()
    return head if until is None else min(head, check_position(until, "until"))
