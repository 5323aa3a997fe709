"""Nothing partial is taken for whole: what tasks wrote is held against what there was to write."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping

from ...errors import CorruptLog
from ...names import RESERVED
from .task import BRONZE, Report


def check_bronze(reports: Iterable[Report], after: int, until: int) -> dict[str, int]:
    """Every event of `(after, until]` is in bronze once; how many of each type users wrote."""
    listed = list(reports)
    files = sorted(
        (file.first - 1, file.last, file.rows)
        for report in listed
        for file in report.files
        if file.table == BRONZE
    )
    edges = [(after, after, 0), *files, (until, until, 0)]
    is_whole = all(one[1] == other[0] for one, other in itertools.pairwise(edges))
    if not is_whole or any(rows != last - before for before, last, rows in files):
        raise CorruptLog(
            f"not every event from {after + 1} to {until} was read once; nothing of them is kept"
        )
    counts: Counter[str] = Counter()
    for report in listed:
        counts.update(report.counts)
    return {type: count for type, count in counts.items() if not type.startswith(RESERVED)}


def check_silver(reports: Iterable[Report], counts: Mapping[str, int], folders: Mapping[str, str]) -> None:
    """Every event of a type is in its table."""
    rows = Counter[str]()
    for report in reports:
        for file in report.files:
            rows[file.table] += file.rows
    for type, count in counts.items():
        if rows[folders[type]] != count:
            raise CorruptLog(
                f"of {count} events {type}, {rows[folders[type]]} were written; nothing of them is kept"
            )
