"""What a refused append needs to decide again."""

from __future__ import annotations

from ..aio import AsyncEventStore
from ..append import AppendCondition
from ..errors import AppendConditionFailed, StrandlineError


async def with_conflicts(
    store: AsyncEventStore, error: AppendConditionFailed, condition: AppendCondition | None
) -> AppendConditionFailed:
    """Return the error with the events that were missed, and a condition to append with after a look at them."""
    if condition is None:
        return error
    try:
        found = await store.check(condition)
    except StrandlineError:  # the refusal stands, with less to say
        return error
    if found.holds:
        return error
    return AppendConditionFailed(
        conflict=error.conflict,
        part=error.part,
        conflicts=found.conflicts,
        complete=found.complete,
        condition=found.condition,
        hint=error.hint,
    )
