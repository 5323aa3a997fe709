"""One Spark session for all tests.

What needs no session runs on each engine. What does, and takes seconds, runs on PostgreSQL, and on SQLite if long tests
run; there each job also runs in the tests of the command line, of the demo and of the docs.
"""

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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes a session, and so takes long, runs on PostgreSQL in `make test`, and on SQLite too in `make test-all`."""
    for item in items:
        params = item.callspec.params if hasattr(item, "callspec") else {}
        if params.get("kept") == "sqlite" and "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("long")
