"""The columns of events that are folded."""

from __future__ import annotations

from collections.abc import Iterable

from ...domain.folding import Fold

KEY = "key"
SEPARATOR = "\n"
"""Between the values of a key: no tag contains it."""
NEEDED = ("position", "type", "data")
"""Without these nothing can be folded."""
RECORDED = ("tags", "stream", "subject", "id", "recorded_at")
"""What only handlers look at that take the recorded event."""


def columns_for(folds: Iterable[Fold]) -> tuple[str, ...]:
    """What folding takes of an event; its version is in the metadata."""
    return (*NEEDED, "metadata", *(RECORDED if any(fold.sees_recorded for fold in folds) else ()))
