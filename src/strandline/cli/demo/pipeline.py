"""What comes after the race: the log becomes a lake, and Spark folds, audits and reports on it."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

import strandline.spark as sls

from ..spark.running import running
from .courses import Sales

SALES = f"{Sales.__module__}:{Sales.__name__}"


class Pipeline(msgspec.Struct, frozen=True):
    """What the jobs found."""

    lake: str
    exported: int
    folded: int
    """How many courses."""
    equal: int
    """How many of them are as the store's own fold says."""
    checked: int
    violations: int
    report: str
    seconds: float

    @property
    def is_sound(self) -> bool:
        """Whether Spark and the store agree, and every condition held."""
        return self.equal == self.folded and not self.violations


def run_pipeline(url: str, log: str, beside: Path, sold: list[Sales], *, verbose: bool) -> Pipeline:
    """Export, fold, audit and report, into files whose names begin alike."""
    lake, page = Path(f"{beside}-lake"), Path(f"{beside}-report.html")
    started = time.perf_counter()
    with running("export the log", None, verbose=verbose) as (spark, told):
        exported = sls.export(spark, url, str(lake), events=[Sales.__module__], projections=[SALES], log=log)
        told("fold", 0, 0)
        rows = {row.id: row for row in sls.fold(spark, url, SALES, log=log).collect()}
        told("audit the log", 0, 0)
        audit = sls.audit(spark, url, log=log)
        told("write the report", 0, 0)
        sls.report(spark, url, str(page), log=log)
    folded = [rows.get(str(course.id)) for course in sold]
    same = [
        row is not None and (row.seats, row.sold) == (course.seats, course.sold)
        for row, course in zip(folded, sold, strict=True)
    ]
    seconds = time.perf_counter() - started
    return Pipeline(
        str(lake),
        exported.events,
        len(sold),
        sum(same),
        audit.checked,
        audit.violations,
        str(page),
        round(seconds, 3),
    )
