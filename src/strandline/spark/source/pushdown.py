"""Reading only what the filters of a Spark query can let through.

What is pushed down only narrows the range and the types; Spark applies all filters again, so the result is the same.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from ...engine import Engine
from ...errors import InvalidQuery
from ...event import to_microseconds
from ...names import RESERVED
from ...query import Query
from .batch import BatchReader
from .options import Options

# What `(after, until]` becomes by a comparison with a value, relative to that value.
_AFTER: dict[type[Filter], int] = {EqualTo: -1, EqualNullSafe: -1, GreaterThanOrEqual: -1, GreaterThan: 0}
_UNTIL: dict[type[Filter], int] = {EqualTo: 0, EqualNullSafe: 0, LessThanOrEqual: 0, LessThan: -1}


class PushdownReader(BatchReader):
    """A reader that is told the filters; Spark refuses it unless `spark.sql.python.filterPushdown.enabled` is true."""

    def __init__(self, options: Options, schema: StructType) -> None:
        super().__init__(options, schema)
        self._positions: tuple[list[int], list[int]] = [], []
        self._times: tuple[list[int], list[int]] = [], []

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802
        """Narrow the read; all filters stay with Spark."""
        for told in filters:
            match told:
                case EqualTo(("type",), name) | EqualNullSafe(("type",), name):
                    self._narrow_types((name,))
                case In(("type",), names):
                    self._narrow_types(names)
                case _:
                    self._narrow_range(told)
        return filters

    def _narrow_types(self, names: tuple[Any, ...]) -> None:
        # An item that names one of the store's own types matches what the same item without types does not.
        if any(not isinstance(name, str) or name.startswith(RESERVED) for name in names):
            return
        try:
            wanted = Query.types(*names)
        except InvalidQuery:
            return  # no event has a type of that name; let Spark find that out
        try:
            self._query = None if self._query is None else self._query & wanted
        except InvalidQuery:
            self._query = None

    def _narrow_range(self, told: Filter) -> None:
        value = getattr(told, "value", None)
        match getattr(told, "attribute", None):
            case ("position",) if isinstance(value, int):
                bounds, number = self._positions, value
            case ("recorded_at",) if isinstance(value, datetime) and value.tzinfo is not None:
                bounds, number = self._times, to_microseconds(value)
            case _:
                return
        for found, steps in zip(bounds, (_AFTER, _UNTIL), strict=True):
            if type(told) in steps:
                found.append(number + steps[type(told)])

    def _span(self, engine: Engine) -> tuple[int, int]:
        after, until = super()._span(engine)
        (afters, untils), (since, before) = self._positions, self._times
        afters += map(engine.position_at, since)
        untils += map(engine.position_at, before)
        return max([after, *afters]), min([until, *untils])
