"""The columns of the source, and which of them a reader asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import InvalidInput

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

COLUMNS = {
    "position": "BIGINT",
    "type": "STRING",
    "tags": "ARRAY<STRING>",
    "data": "STRING",
    "id": "STRING",
    "metadata": "MAP<STRING,STRING>",
    "stream": "STRING",
    "subject": "STRING",
    "recorded_at": "TIMESTAMP",
}
SCHEMA = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())

_ALLOWED = {name: (kind.lower(),) for name, kind in COLUMNS.items()} | {"data": ("string", "binary")}
_MAY_BE_NULL = ("stream", "subject")


def check_schema(schema: StructType) -> None:
    """Refuse a schema that asks for what the source does not have."""
    for field in schema.fields:
        kinds = _ALLOWED.get(field.name)
        if kinds is None:
            raise InvalidInput(
                f"the source has no column {field.name!r:.80}", hint=f"its columns are {SCHEMA}"
            )
        if field.dataType.simpleString() not in kinds:
            raise InvalidInput(
                f"the column {field.name} is {' or '.join(map(str.upper, kinds))},"
                f" not {field.dataType.simpleString().upper():.80}",
                hint="ask for it as it is, and cast it in Spark",
            )
        if not field.nullable and field.name in _MAY_BE_NULL:
            raise InvalidInput(
                f"not every event has a {field.name}", hint=f"leave NOT NULL out at the column {field.name}"
            )
    if len(set(schema.names)) < max(1, len(schema.names)):
        raise InvalidInput("a schema names one column at least, and none twice", hint=f"choose of {SCHEMA}")
