"""The SQL of the engines: one static statement per file, loaded by name."""

from __future__ import annotations

from importlib.resources import files


def load(package: str, name: str) -> str:
    """The statement in `sql/<name>.sql` of an engine's package, without its first comment."""
    text = (files(package) / "sql" / f"{name}.sql").read_text(encoding="utf-8")
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if not line.startswith("--"))
    return "\n".join(lines[start:])
