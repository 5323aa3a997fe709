"""Reading a log as it grows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from ...engine import Engine
from ...engine.retags import concerning_retag
from ...errors import InvalidInput
from ..mark import Mark, check_mark, mark_at
from .columns import check_schema
from .options import Options
from .ranges import Range, is_common, split
from .reading import batches

ANEW = (
    "begin a new stream: with another checkpoint location, and with a sink that holds nothing of the old log"
)


class Offset(Mark, frozen=True):
    """How far a stream is: everything in `(start, position]` was delivered, with the tags as of the head `judged`."""

    start: int = 0
    judged: int = 0


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Delivers each event once, in ranges of positions that stay the same when they are read again."""

    def __init__(self, options: Options, schema: StructType) -> None:
        check_schema(schema)
        self._options = options
        self._schema: pa.Schema = to_arrow_schema(schema, timezone="UTC")
        self._engine: Engine | None = None
        self._target: int | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where a new stream begins."""
        engine = self._log()
        first = self._options.starting_position
        return _told(engine, engine.head() if first is None else first - 1)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """At most `maxEventsPerTrigger` positions at once."""
        most = self._options.max_events_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What comes later is for the next run."""
        self._target = self._log().head()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """How far the next batch goes; the start, if there is nothing new."""
        engine, begin = self._log(), msgspec.convert(start, Offset)
        head = self._check(begin)
        end = head if self._target is None else max(begin.position, min(head, self._target))
        if isinstance(limit, ReadMaxRows):
            end = min(end, begin.position + limit.max_rows)
        return start if end == begin.position else _told(engine, end, begin.start, head)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """The head, for those who watch the stream's progress."""
        return _told(self._log(), self._log().head())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The ranges of a batch, which may be one that was planned in an earlier life."""
        begin, finish = msgspec.convert(start, Offset), msgspec.convert(end, Offset)
        self._check(begin)
        self._check(finish)
        span = begin.position, finish.position
        if span[0] >= span[1]:
            return []
        scan = is_common(self._log(), self._options.query, span)
        return split(finish.log, span, self._options.partitions, scan=scan)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The events of a range."""
        if isinstance(partition, Range):
            yield from batches(self._options, self._options.query, partition, self._schema)

    def stop(self) -> None:
        """Let go of the log."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def _log(self) -> Engine:
        # Made when it is first needed: executors get a copy of this reader, which opens nothing.
        if self._engine is None:
            self._engine = self._options.open()
        return self._engine

    def _check(self, offset: Offset) -> int:
        """Stop if what was delivered is not what the log says now; returns the head."""
        engine = self._log()
        check_mark(engine, offset, hint=ANEW)
        head = engine.head()
        delivered = offset.start, offset.position
        retag = concerning_retag(engine, self._options.query, delivered, offset.judged, head)
        if retag is not None:
            raise InvalidInput(
                f"the retag at position {retag.position} changed an event that the stream has delivered, or should"
                f" have delivered, up to position {offset.position}",
                hint="begin a new stream with another checkpoint location and an empty sink; or, if the sink may keep"
                f" what it has, with startingPosition {offset.position + 1}",
            )
        return head


def _told(
    engine: Engine, position: int, start: int | None = None, judged: int | None = None
) -> dict[str, Any]:
    """An offset as Spark keeps it: JSON."""
    mark = mark_at(engine, position)
    began = position if start is None else start
    as_of = position if judged is None else judged
    return msgspec.to_builtins(Offset(mark.log, mark.position, mark.fingerprint, began, as_of))  # type: ignore[no-any-return]
