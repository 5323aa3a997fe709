"""What a row of Spark's shows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Row


def columns_of(row: Row) -> dict[str, Any]:
    """The columns of a row by name, times in UTC."""
    columns: dict[str, Any] = _in_utc(row.asDict(recursive=True))
    return columns


def _in_utc(value: Any) -> Any:
    """The value with the zone that its times lack: PySpark gives them in the machine's own, and does not say so."""
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if isinstance(value, dict):
        return {_in_utc(key): _in_utc(inner) for key, inner in value.items()}
    return [_in_utc(inner) for inner in value] if isinstance(value, list) else value
