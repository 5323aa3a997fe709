"""`export`: a log as a lake."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import TYPE_CHECKING

import msgspec

from ...domain.event import DomainEvent
from ...domain.projection import Projection
from ...engine.open import DEFAULT_LOG
from ..active import in_any_thread
from ..reach import reachable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH = 1_000_000

Source = str | type[DomainEvent] | ModuleType
Projected = str | type[Projection]
Progress = Callable[[str, int, int], None]


class Exported(msgspec.Struct, frozen=True):
    """What an export did: `events` are new in the lake.

    `rewritten` were there and are written anew: a retag changed their tags, their class has other columns, or they
    were in many small files.
    """

    lake: str
    format: str
    head: int
    events: int
    rewritten: int
    silver: int
    gold: int
    files: int
    bytes: int
    seconds: float


@in_any_thread
def export(
    spark: SparkSession,
    url: str | os.PathLike[str],
    lake: str | os.PathLike[str],
    format: str = "parquet",
    *,
    log: str = DEFAULT_LOG,
    events: Source | Iterable[Source] = (),
    projections: Projected | Iterable[Projected] = (),
    batch: int = BATCH,
    progress: Progress | None = None,
) -> Exported:
    """Bring the lake in a folder up to the head of the log: `bronze`, `silver/<type>` and `gold/<projection>`.

    Bronze has every event, by day; silver a table for each type, with the columns of its class among `events`
    (modules, classes, or their import paths), else with those that the JSON of its first batch shows; gold the
    `projections`, folded. Only what is new is written, at most `batch` events at once; what a lake has from before
    (classes, projections) need not be named again. It may be killed at any time, and run again.
    """
    from .exporting import bring_up_to_date
    from .jobs import SparkJobs

    place = reachable(spark, url)
    return bring_up_to_date(
        SparkJobs(spark, place, log),
        place,
        lake,
        format,
        log=log,
        events=events,
        projections=projections,
        batch=batch,
        progress=progress or _silent,
    )


def _silent(what: str, done: int, of: int) -> None:
    """Nobody wants to know."""
