"""Which logs executors can reach."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..engine.open import Place, place_of, refuse_server
from ..errors import InvalidInput

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def reachable(spark: SparkSession, url: str | os.PathLike[str]) -> str:
    """The URL as executors can use it; refused if they cannot."""
    place = kept_place(url)
    if place.engine == "postgres":
        return place.address
    master = str(spark.conf.get("spark.master", "") or "")
    if not is_local(master):
        raise InvalidInput(
            f"a SQLite file is read on one machine only, and Spark runs on {master or 'a cluster'}",
            hint='run it with strandline.spark.session("local[*]"), or keep the log in PostgreSQL',
        )
    # Python workers may run in another folder than this process.
    return os.path.abspath(place.address)


def kept_place(url: str | os.PathLike[str]) -> Place:
    """Where the log is; refused if it would be gone with this process."""
    refuse_server(url, "have Spark read")
    place = place_of(url)
    if place.engine == "memory":
        raise InvalidInput(
            "a log in memory belongs to one process, and Spark has several",
            hint="use a file, or a PostgreSQL database",
        )
    return place


def is_local(master: str) -> bool:
    """Whether driver and executors are one process (`local-cluster` has several, as a cluster has)."""
    return master == "local" or master.startswith("local[")
