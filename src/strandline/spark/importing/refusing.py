"""What is wrong with a source, said before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from ...errors import EventIdConflict, InvalidEvent
from ..staging.piece import REFUSALS_TOLD, Piece
from .origin import Origin


def refuse_bad(placed: Sequence[Origin]) -> None:
    """Say which lines are no events, the first ones by their place."""
    refused = sum(origin.piece.refused for origin in placed)
    if refused:
        of = sum(origin.piece.rows for origin in placed)
        told = [f"{o.place(one.row)}: {one.why}" for o in placed for one in o.piece.refusals][:REFUSALS_TOLD]
        raise InvalidEvent(
            f"{refused:,} of {of:,} are no events, so nothing was written. " + "; ".join(told),
            hint="correct or remove them, and import again",
        )


def refuse_rivals(spark: SparkSession, pieces: Sequence[Piece]) -> None:
    """Say which ids the source uses for different events."""
    paths = [piece.path for piece in pieces if piece.path]
    if not paths:
        return
    content = sf.xxhash64("type", "data", "tags", "stream", "subject")
    rivals = (
        spark.read.parquet(*paths)
        .where("id is not null")
        .groupBy("id")
        .agg(sf.min(content).alias("one"), sf.max(content).alias("other"))
        .where("one != other")
        .limit(REFUSALS_TOLD)
        .collect()
    )
    if rivals:
        ids = ", ".join(str(UUID(bytes=bytes(row["id"]))) for row in rivals)
        raise EventIdConflict(
            f"different events in the source have the same id, so nothing was written: {ids}",
            hint="an id names one event; give the others new ids, and import again",
        )
