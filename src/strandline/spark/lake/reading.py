"""Reading a lake through its manifest: always whole, also while an export runs or after one was killed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ...errors import NotFound
from ..active import in_any_thread

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from .manifest import File, Manifest

BRONZE = "bronze"


def lake_files(lake: str | os.PathLike[str], table: str = BRONZE) -> list[str]:
    """The files of a table, for any reader of Parquet: `bronze`, `silver/<type>` or `gold/<projection>`."""
    from . import delta
    from .folder import Folder

    folder = Folder(lake)
    manifest = folder.existing()
    place, files = _table(manifest, table, folder.path)
    if manifest.format == "delta":
        return delta.files_of(folder.at(place))
    return [folder.whereabouts(file) for file in files]


@in_any_thread
def read_lake(spark: SparkSession, lake: str | os.PathLike[str], table: str = BRONZE) -> DataFrame:
    """A table of a lake: `bronze`, `silver/<type>` or `gold/<projection>`."""
    from pyspark.sql.functions import to_date

    frame = spark.read.parquet(*lake_files(lake, table))
    return frame.withColumn("date", to_date("recorded_at")) if table == BRONZE else frame


def _table(manifest: Manifest, name: str, lake: str) -> tuple[str, list[File]]:
    """The folder and the files of a table."""
    tables = {BRONZE: (BRONZE, manifest.bronze)}
    tables |= {f"silver/{type}": (table.folder, table.files) for type, table in manifest.silver.items()}
    tables |= {
        f"gold/{projection}": (table.folder, table.files) for projection, table in manifest.gold.items()
    }
    known = {table: (folder, files) for table, (folder, files) in tables.items() if files}
    if name not in known:
        raise NotFound(
            f"the lake at {lake} has no table {name!r:.120}",
            hint=f"its tables: {', '.join(sorted(known)) or 'none'}",
        )
    return known[name]
