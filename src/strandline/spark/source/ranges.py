"""Partitions: ranges of positions, which are gapless, so that equal ranges hold equally many events."""

from __future__ import annotations

import itertools
import os

from pyspark.sql.datasource import InputPartition

from ...engine import Engine, Span
from ...engine.scan import Types
from ...query import Query

FEWEST_EVENTS = 10_000  # a task for less costs more than it saves
MOST_EVENTS = 500_000
SAMPLE = 64
COMMON = 0.1  # of the events: from there on, looking at each costs less than finding them one by one


class Range(InputPartition):
    """The positions `(after, until]` of a log, to be scanned or searched."""

    def __init__(self, log: str, after: int, until: int, *, scan: bool) -> None:
        self.log = log
        self.after = after
        self.until = until
        self.scan = scan


def split(log: str, span: tuple[int, int], count: int | None, *, scan: bool) -> list[Range]:
    """Ranges of equal size, `count` of them or as many as are good."""
    after, until = span
    events = until - after
    if count is None:
        count = min(-(-events // FEWEST_EVENTS), max(os.cpu_count() or 1, -(-events // MOST_EVENTS)))
    count = max(1, min(count, events))
    edges = [after + events * number // count for number in range(count + 1)]
    return [Range(log, start, end, scan=scan) for start, end in itertools.pairwise(edges) if start < end]


def is_common(engine: Engine, query: Query, span: tuple[int, int]) -> bool:
    """Whether so many events of the range match that a scan is the best way to find them."""
    types = Types.of(query)
    if types is None or types.every:
        return types is not None
    after, until = span
    size = min(SAMPLE, until - after)
    positions = {after + 1 + (until - after) * number // size for number in range(size)}
    sample = [
        event
        for position in positions
        for event in engine.read_page(Query.all(), Span(position - 1, position), 1).events
    ]
    return sum(map(query.matches, sample)) >= COMMON * len(sample)
