"""Gold: projections folded over the whole log, each as a table that is replaced whole."""

from __future__ import annotations

from collections.abc import Iterable

from ...errors import InvalidInput
from ..loading import imported
from .export import Projected
from .manifest import Gold, Manifest
from .names import folder_name


def paths_of(projections: Projected | Iterable[Projected]) -> list[str]:
    """The import paths of projections."""
    given = [projections] if isinstance(projections, (str, type)) else [*projections]
    return [imported(projection).path for projection in given]


def stale(manifest: Manifest, projections: Iterable[str], head: int) -> dict[str, Gold]:
    """The tables to be folded: those that are asked for and those that the lake has, unless they are up to date."""
    tables: dict[str, Gold] = {}
    known_paths = (table.projection for table in manifest.gold.values())
    for path, version in map(imported, (*projections, *known_paths)):
        name = path.rpartition(":")[2]
        table = Gold(f"gold/{folder_name(name, ())}", path, version, head)
        known = tables.setdefault(name, table)
        if known.projection != path:
            raise InvalidInput(
                f"{known.projection} and {path} would both be the table {table.folder}",
                hint="give one of the classes another name, or export it into another lake",
            )
    return {name: table for name, table in tables.items() if _is_stale(manifest.gold.get(name), table)}


def _is_stale(known: Gold | None, table: Gold) -> bool:
    is_same = known is not None and (known.version, known.as_of) == (table.version, table.as_of)
    return table.as_of > 0 and not is_same
