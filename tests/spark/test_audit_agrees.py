"""The audit on Spark and the audit in process find the same in logs where anything may have been accepted."""

from __future__ import annotations

from planting import accepted_wrongly, write_random_log

from places import Place
from strandline.spark.audit.job import run
from strandline.spark.audit.nearest import BLOCK


def test_the_audit_finds_what_the_audit_in_process_finds(spark, kept: Place):
    seed, block = (1, BLOCK) if kept.is_in_database else (2, 100)  # a block is less than the log once
    conditions = write_random_log(kept, seed, 400)
    with kept.connect() as store:
        expected = accepted_wrongly(store)
    report = run(spark, str(kept.url), kept.log or "default", block=block)
    found = {row.first: row.position for row in report.details.collect()}

    assert found == expected
    assert (report.violations, report.checked) == (len(expected), len(conditions))
    assert 50 < len(expected) < len(conditions) - 50
