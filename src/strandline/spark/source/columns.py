"""The columns of the source."""

from __future__ import annotations

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
