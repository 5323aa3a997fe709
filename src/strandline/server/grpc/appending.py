"""Appends as UmaDB's clients mean them, by calls of the public API."""

from __future__ import annotations

from collections.abc import Sequence

from ...aio import AsyncEventStore
from ...append import AppendCondition, AppendResult, Check
from ...errors import AppendConditionFailed, EventIdConflict, Forbidden, InvalidInput
from ...event import Event
from .marks import given_id, with_new_id

NOTHING = AppendResult(0, 0, 0)


async def append(
    store: AsyncEventStore,
    events: list[Event],
    condition: AppendCondition | None,
    tracking: tuple[str, int] | None,
) -> AppendResult:
    """Append events. Without events and without tracking, only look whether the condition holds."""
    if not events and tracking is None:
        await _only_judge(store, condition)
        return NOTHING
    if condition is None:
        result = await store.append(events, tracking=tracking)
        if result.duplicate:
            raise _used_again(events, result)
        return result
    result = await _append(store, events, condition, tracking)
    return await _again(store, events, condition, tracking, result) if result.duplicate else result


async def _again(
    store: AsyncEventStore,
    events: list[Event],
    condition: AppendCondition,
    tracking: tuple[str, int] | None,
    earlier: AppendResult,
) -> AppendResult:
    """Say where the events are that were appended before. If the condition holds all the same, append them again.

    A condition usually matches the events of its own append, so that a repeat finds them. One that does not is no repeat
    for UmaDB, whose clients count on that. In this log the new events have ids of their own.
    """
    try:
        met = await _dry_run(store, condition, len(events))
    except Forbidden:  # the caller sees no events, so it is told of the first append only
        return earlier
    if met is None or met.holds:
        return await _append(store, [with_new_id(event) for event in events], condition, tracking)
    if [given_id(event) for event in met.conflicts] == [event.raw_id for event in events]:
        return AppendResult(met.conflicts[0].position, met.conflicts[-1].position, len(events), True)
    return earlier


async def _append(
    store: AsyncEventStore,
    events: Sequence[Event],
    condition: AppendCondition,
    tracking: tuple[str, int] | None,
) -> AppendResult:
    """Append under a condition. One whose `after` is beyond the head cannot fail, but the store would refuse it.

    So it gets the condition that nothing matching has come since the head. What comes meanwhile up to `after` makes that
    one fail, and is passed over.
    """
    try:
        return await store.append(events, condition, tracking=tracking)
    except InvalidInput:
        after = await store.head()
    if condition.after <= after:  # the head has come there meanwhile, or the error has another reason
        return await store.append(events, condition, tracking=tracking)
    while True:
        reached = AppendCondition(condition.fail_if_events_match, after=after)
        try:
            return await store.append(events, reached, tracking=tracking)
        except AppendConditionFailed as error:
            after = error.conflict.position
            if after > condition.after:
                raise


async def _only_judge(store: AsyncEventStore, condition: AppendCondition | None) -> None:
    met = None if condition is None else await _dry_run(store, condition, 0)
    if condition is not None and met is not None and met.conflict is not None:
        raise AppendConditionFailed(conflict=met.conflict, part=condition)


async def _dry_run(store: AsyncEventStore, condition: AppendCondition, most: int) -> Check | None:
    """Return what an append would meet. None if `after` is beyond the head: then nothing."""
    try:
        return await store.check(condition, conflicts=most)
    except InvalidInput:
        if condition.after > await store.head():
            return None
    return await store.check(condition, conflicts=most)


def _used_again(events: Sequence[Event], earlier: AppendResult) -> EventIdConflict:
    return EventIdConflict(
        f"the id {events[0].id} is that of event {earlier.first}, and this append has no condition",
        hint="give new events new ids. To repeat an append safely, send it with its condition",
    )
