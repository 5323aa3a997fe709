"""The fold as a table function: what executors run, and what SQL can call."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import cache
from types import FrameType
from typing import Any, ClassVar, cast

import pyarrow as pa
from pyspark.sql.functions import arrow_udtf
from pyspark.sql.udtf import UserDefinedTableFunction

from ...domain.folding import Fold
from ...errors import InvalidInput
from ..loading import Imported
from .columns import KEY, columns_for
from .passing import Pass
from .rows import check_columns, in_columns, sequenced, unpacked
from .states import StateColumns

STATES_AT_ONCE = 10_000


class FoldEvents:
    """Folds the events of one key, which come in their order."""

    projection: ClassVar[Imported]

    def __init__(self) -> None:
        self._fold, self._columns = _worked_out(self.projection)
        self._pass = Pass([self._fold])

    def eval(self, table: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take the next events."""
        check_columns(table.schema.names)
        keys = table.column(KEY).to_pylist()
        partition = _partition()
        if any((key,) != partition for key in keys):
            raise InvalidInput(
                "the events of a key do not come alone and together: some of them may be elsewhere",
                hint="write TABLE(…) PARTITION BY key ORDER BY position",
            )
        self._pass.feed(in_columns(list(sequenced(table))), [(range(len(keys)), keys)])
        return iter(())

    def terminate(self) -> Iterator[pa.RecordBatch]:
        """Give the state."""
        yield self._columns.batch(list(self._pass.end()))


class FoldBucket:
    """Folds the events of a bucket, with all its keys."""

    projection: ClassVar[Imported]

    def __init__(self) -> None:
        self._fold, self._columns = _worked_out(self.projection)
        self._pass = Pass([self._fold])

    def eval(self, table: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take the next events."""
        feed(self._pass, [self._fold], table)
        return iter(())

    def terminate(self) -> Iterator[pa.RecordBatch]:
        """Give the states."""
        states = list(self._pass.end())
        for start in range(0, len(states), STATES_AT_ONCE):
            yield self._columns.batch(states[start : start + STATES_AT_ONCE])


def feed(one: Pass, folds: Sequence[Fold], table: pa.RecordBatch) -> None:
    """Let a pass take packed events."""
    columns = columns_for(folds)
    for events in table.column("events"):
        one.feed(*unpacked(events.as_buffer(), columns, len(folds)))


def _partition() -> tuple[Any, ...] | None:
    """The values of PARTITION BY in the call that is served; None if there are none.

    Spark 4.3 does not tell an Arrow function how it is called. But its worker splits the events by these values in
    a method of its own, which is further up in the stack.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "_process_arrow_batch_by_partitions":
            found: tuple[Any, ...] = frame.f_locals["partition_key"]
            return found
        frame = frame.f_back
    return None


@cache
def _worked_out(projection: Imported) -> tuple[Fold, StateColumns]:
    """What all keys share: with PARTITION BY each key has a function of its own."""
    cls: Any = projection.load()
    return Fold(cls), StateColumns(cls)


def table_function(projection: Imported, cls: type = FoldEvents) -> UserDefinedTableFunction:
    """The function that folds a projection."""
    _, columns = _worked_out(projection)
    return arrow_function(type("Fold", (cls,), {"projection": projection}), columns.ddl)


def arrow_function(cls: type, schema: str) -> UserDefinedTableFunction:
    """A class as a table function; executors are sent the class itself."""
    return cast("UserDefinedTableFunction", arrow_udtf(cls, returnType=schema))
