"""The files of a source as pieces of staged events."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from functools import reduce
from typing import NamedTuple

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from ...errors import InvalidInput, NotFound
from ..staging.piece import Piece
from ..staging.source import Settings, StagingSource, stage
from .lines import READERS, Lines
from .rows import Rows, check_columns

# Folders in folders are looked into; what their names say (date=2026-01-31) is no column of an event.
_EVERYWHERE = {"recursiveFileLookup": "true"}
_OF_PATTERNS = re.compile(r"[][{}*?\\]")


class Source(NamedTuple):
    """Files that are there and of their format; nothing of them was read yet."""

    frame: DataFrame
    kind: type[StagingSource]
    settings: Settings

    def staged(self, folder: str, settings: Settings) -> list[Piece]:
        """Let executors check and stage what is in them; the pieces are in the order of the source."""
        return stage(self.frame, self.kind, folder, {**self.settings, **settings})


def source_of(spark: SparkSession, paths: Sequence[str], format: str, order_by: str | None) -> Source:
    """What is to be imported; refused if Spark would not find it, or could not read it."""
    if format == "parquet":
        frame = _read(lambda: spark.read.options(**_EVERYWHERE).parquet(*map(_as_spark_reads, paths)), paths)
        order = check_columns(frame.schema, order_by or ("position" if "position" in frame.columns else None))
        return Source(_sorted(frame, order), Rows, {"order_by": order})
    if format not in READERS:
        raise InvalidInput(f"there is no format {format!r:.40}", hint=f"use {', '.join(READERS)} or parquet")
    if order_by is not None:
        raise InvalidInput("lines have their order already", hint="leave order_by out; it is for Parquet")
    return Source(_lines(spark, paths), Lines, {"format": format})


def _lines(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """The lines with their place: which of the paths, which file, which split of it."""
    reader = spark.read.options(lineSep="\n", **_EVERYWHERE)
    frames = [_read(lambda path=path: reader.text(_as_spark_reads(path)), [path]) for path in paths]  # type: ignore[misc]
    numbered = (
        frame.select(
            sf.lit(number),
            sf.col("_metadata.file_path"),
            sf.col("_metadata.file_block_start"),
            sf.col("value").cast("binary"),
        )
        for number, frame in enumerate(frames)
    )
    return reduce(DataFrame.union, numbered)


def _sorted(frame: DataFrame, order_by: str) -> DataFrame:
    """The rows in their order; those that are equal in it, in the order of their files."""
    place = {
        "_file": sf.col("_metadata.file_path"),
        "_block": sf.col("_metadata.file_block_start"),
        "_row": sf.monotonically_increasing_id(),
    }
    return frame.withColumns(place).orderBy(sf.col(f"`{order_by}`"), *place).drop(*place)


def _as_spark_reads(path: str) -> str:
    """The path, for Spark no pattern if it is that of a file or folder."""
    return _OF_PATTERNS.sub(r"\\\g<0>", path) if os.path.exists(path) else path


def _read(load: Callable[[], DataFrame], paths: Sequence[str]) -> DataFrame:
    where = ", ".join(paths)
    try:
        return load()
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            raise NotFound(f"there is no file at {where}", hint="correct the path") from None
        raise InvalidInput(
            f"Spark cannot read {where}: {error}", hint="correct the path or the format"
        ) from error
    except Py4JError as error:
        raise InvalidInput(f"Spark cannot read {where}", hint="is it of this format?") from error
