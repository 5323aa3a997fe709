"""The SQL of this engine: one static statement per file in `sql/`, loaded by name."""

from __future__ import annotations

from importlib.resources import files

_FOLDER = files(__package__) / "sql"


def sql(name: str) -> str:
    """The statement in `sql/<name>.sql`, without its first comment."""
    lines = (_FOLDER / f"{name}.sql").read_text(encoding="utf-8").splitlines()
    start = next(number for number, line in enumerate(lines) if not line.startswith("--"))
    return "\n".join(lines[start:])
