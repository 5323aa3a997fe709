"""One Spark session for all tests; each engine once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import strandline.spark as sls
from newest import kept, postgres

__all__ = ["kept", "postgres"]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session on this machine."""
    session = sls.session("local[2]", **{"spark.sql.shuffle.partitions": 2})
    yield session
    session.stop()
