"""One Spark session for all tests.

What needs no session runs on each engine. What does takes seconds: `make test` has each job by the command line on SQLite,
and the most important tests on PostgreSQL; `make test-all` has all of them on both.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import strandline.spark as sls
from newest import kept, postgres
from strandline.spark.session import active_session

__all__ = ["kept", "postgres"]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session on this machine, and not the one that the code of a page may have left."""
    left = active_session()
    if left is not None:
        left.stop()
    session = sls.session("local[2]", **{"spark.sql.shuffle.partitions": 2})
    yield session
    session.stop()


IN_EVERY_RUN = (
    "test_cli_spark",
    "test_demo_on_spark",
    "test_fold",
    "test_rebuild",
    "test_audit_agrees",
    "test_source",
    "test_threads",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes a session takes long: `make test` has each job once or twice, `make test-all` everything."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            params = item.callspec.params if hasattr(item, "callspec") else {}
            if item.path.stem not in IN_EVERY_RUN or params.get("kept") == "sqlite":
                item.add_marker("long")
