"""The SQL of this engine: one static statement per file in `sql/`."""

from __future__ import annotations

from ..statements import load


def sql(name: str) -> str:
    """The statement in `sql/<name>.sql`."""
    return load(__package__, name)
