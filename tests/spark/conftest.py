"""One Spark session for all tests.

What needs no session runs on each engine. What does, and takes seconds, runs on PostgreSQL; on SQLite each job runs in the
tests of the command line, of the demo and of the docs.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import strandline.spark as sls
from newest import NEWEST, kept, postgres

__all__ = ["kept", "postgres"]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session on this machine."""
    session = sls.session("local[2]", **{"spark.sql.shuffle.partitions": 2})
    yield session
    session.stop()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Where a test with a session keeps its log."""
    if {"spark", "kept"} <= {*metafunc.fixturenames}:
        metafunc.parametrize("kept", NEWEST, indirect=True)
