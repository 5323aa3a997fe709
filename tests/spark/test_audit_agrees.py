"""The audit on Spark and the audit in process find the same in logs where anything may have been accepted."""

from __future__ import annotations

import pytest
from planting import accepted_wrongly, write_random_log

from places import Place
from strandline.spark.audit.job import run


@pytest.mark.parametrize("seed", [1, 2])
def test_the_audit_finds_what_the_audit_in_process_finds(spark, kept: Place, seed: int):
    conditions = write_random_log(kept, seed, 300)
    with kept.connect() as store:
        expected = accepted_wrongly(store)
    report = run(spark, str(kept.url), kept.log or "default", block=100)
    found = {row.first: row.position for row in report.details.collect()}

    assert found == expected
    assert (report.violations, report.checked) == (len(expected), len(conditions))
    assert 30 < len(expected) < len(conditions) - 30
