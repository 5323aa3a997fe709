"""The audit on Spark and the audit in process find the same in logs where anything may have been accepted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from newest import NEWEST
from places import Place
from planting import accepted_wrongly, write_random_log
from strandline.spark.audit.job import run
from strandline.spark.audit.nearest import BLOCK


@pytest.mark.parametrize(
    ("engine", "seed", "block"),
    [("sqlite", 2, 100), *((engine, 1, BLOCK) for engine in NEWEST)],  # a block is less than the log once
)
def test_the_audit_finds_what_the_audit_in_process_finds(
    spark, new_place: Callable[[str], Place], engine: str, seed: int, block: int
):
    place = new_place(engine)
    conditions = write_random_log(place, seed, 400)
    with place.connect() as store:
        expected = accepted_wrongly(store)
    report = run(spark, str(place.url), place.log or "default", block=block)
    found = {row.first: row.position for row in report.details.collect()}

    assert found == expected
    assert (report.violations, report.checked) == (len(expected), len(conditions))
    assert 50 < len(expected) < len(conditions) - 50
