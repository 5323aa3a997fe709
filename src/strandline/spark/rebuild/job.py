"""What executors are told to fold, and where to put it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

from ...domain.folding import Fold
from ...engine.open import place_of, without_password
from ...follow.models.kinds import Dialect
from ...follow.models.table import SHADOW, Table
from ..loading import Imported


class Target(NamedTuple):
    """A projection, and the table of its read model."""

    projection: Imported
    table: str


class Job:
    """Which projections of which log go into which tables. Goes to executors as it is."""

    def __init__(self, url: str, log: str, targets: Sequence[Target]) -> None:
        self.url = url
        self.log = log
        self.targets = tuple(targets)

    def __reduce__(self) -> tuple[Any, ...]:
        return Job, (self.url, self.log, self.targets)

    def __repr__(self) -> str:
        return f"Job({without_password(self.url)!r}, {self.log!r}, {self.targets!r})"

    @property
    def dialect(self) -> Dialect:
        """The language of the database."""
        return "sqlite" if place_of(self.url).engine == "sqlite" else "postgres"

    @cached_property
    def folds(self) -> list[Fold]:
        """The projections, worked out where they are folded."""
        return [Fold(target.projection.load()) for target in self.targets]

    @cached_property
    def shadows(self) -> list[Table]:
        """The tables that are filled."""
        return [
            Table(f"{target.table}{SHADOW}", fold.projection, self.dialect)
            for target, fold in zip(self.targets, self.folds, strict=True)
        ]
