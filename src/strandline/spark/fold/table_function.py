"""The fold as a table function: what executors run, and what SQL can call."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, ClassVar, cast

import pyarrow as pa
from pyspark.sql.functions import arrow_udtf
from pyspark.sql.udtf import UserDefinedTableFunction

from ...domain.folding import Fold
from ..loading import Imported
from .passing import Pass
from .rows import check_columns
from .states import StateColumns


class FoldEvents:
    """Folds the events of one partition, which come in the order of their keys and positions."""

    projection: ClassVar[Imported]

    def __init__(self) -> None:
        self._fold, self._columns = _worked_out(self.projection)
        self._pass = Pass([self._fold])
        self._is_checked = False

    def eval(self, table: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Give the states of the keys that ended."""
        if not self._is_checked:
            check_columns(table.schema.names)
            self._is_checked = True
        yield self._columns.batch(list(self._pass.feed(table)))

    def terminate(self) -> Iterator[pa.RecordBatch]:
        """Give the last one."""
        yield self._columns.batch(list(self._pass.end()))


@cache
def _worked_out(projection: Imported) -> tuple[Fold, StateColumns]:
    """What all keys share: with PARTITION BY each key has a function of its own."""
    cls: Any = projection.load()
    return Fold(cls), StateColumns(cls)


def table_function(projection: Imported) -> UserDefinedTableFunction:
    """The function that folds a projection."""
    _, columns = _worked_out(projection)
    return arrow_function(type("Fold", (FoldEvents,), {"projection": projection}), columns.ddl)


def arrow_function(cls: type, schema: str) -> UserDefinedTableFunction:
    """A class as a table function; executors are sent the class itself."""
    return cast("UserDefinedTableFunction", arrow_udtf(cls, returnType=schema))
