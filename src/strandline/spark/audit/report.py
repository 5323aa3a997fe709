"""What an audit tells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from .contention import Contended


@dataclass(frozen=True)
class AuditReport:
    """Whether every recorded condition held, and how close appends came to each other.

    `details` has a row for each append that should have been refused: its positions, the part and the item of its
    condition (counted from 0; no item if a retag changed what the part means), the part's `after`, and the position
    that should have refused it, with type and tags as of then.
    """

    log: str
    head: int
    appends: int
    checked: int
    violations: int
    unconditional: int
    not_recorded: int
    not_auditable: int
    with_where: int
    refused: int
    near_misses: int
    longest_distance: int
    most_contended: tuple[Contended, ...]
    slowest: tuple[Contended, ...]
    details: DataFrame
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether there is no violation."""
        return not self.violations

    def figures(self) -> dict[str, Any]:
        """The numbers alone, by name."""
        left_out = {"details", "most_contended", "slowest"}
        return {name: getattr(self, name) for name in self.__dataclass_fields__ if name not in left_out}
