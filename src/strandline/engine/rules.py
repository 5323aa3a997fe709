"""Small rules that every engine applies alike."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ..append import AppendCondition, Status
from ..errors import EventIdConflict, InvalidInput, TrackingConflict
from ..event import Event, SequencedEvent, to_microseconds
from ..names import counted
from . import Clock

LOCK_SECONDS = 30.0
"""How long an append waits for the lock of its log, if nothing else is said."""


def check_lock_timeout(seconds: float) -> float:
    """How long to wait for the lock of a log."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds <= 86_400:
        raise InvalidInput(
            f"lock_timeout is a number of seconds above 0, at most a day, not {seconds!r:.40}",
            hint="for example lock_timeout=30",
        )
    return float(seconds)


class Time:
    """The clock of a log: microseconds that never decrease."""

    def __init__(self, clock: Clock | None = None) -> None:
        if clock is not None and not callable(clock):
            raise InvalidInput(
                f"a clock is a function that returns the time, not {clock!r:.40}",
                hint="for example clock=lambda: datetime.now(UTC)",
            )
        self._clock = clock

    def now(self, last: int) -> int:
        """The present, or `last` if the clock is behind it."""
        given = self.given()
        return max(time.time_ns() // 1000 if given is None else given, last)

    def given(self) -> int | None:
        """What the clock that the user gave says, None if there is no such clock."""
        return None if self._clock is None else self._ask(self._clock)

    @staticmethod
    def _ask(clock: Clock) -> int:
        try:
            return to_microseconds(clock())
        except (InvalidInput, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise InvalidInput(
                f"the clock raised {type(error).__name__}: {error}",
                hint="correct the callable given as clock",
            ) from error


_SAID_AGAIN = ("type", "data", "stream", "subject", "tags")


def is_repeat(events: Sequence[Event], earlier: Sequence[SequencedEvent]) -> bool:
    """Whether an append says again, in order, what an earlier one wrote (which has its tags as appended)."""
    return len(events) == len(earlier) and all(
        new.raw_id == old.raw_id and not _differences(new, old)
        for new, old in zip(events, earlier, strict=True)
    )


def id_conflict(events: Sequence[Event], earlier: Sequence[SequencedEvent]) -> EventIdConflict:
    """The refusal of an append that uses an id again: of an earlier one, or, if there is none, one of its own."""
    positions = {old.raw_id: old.position for old in earlier}
    seen = set[bytes]()
    for new in events:
        if new.raw_id in seen:
            return EventIdConflict(f"the id {new.id} is twice in this append")
        seen.add(new.raw_id)
    (taken, position), *_ = [(new.id, positions[new.raw_id]) for new in events if new.raw_id in positions]
    return EventIdConflict(
        f"the id {taken} is that of event {position}, and this append is no repeat of the one that wrote it:"
        f" {_why_no_repeat(events, earlier)}"
    )


def _why_no_repeat(events: Sequence[Event], earlier: Sequence[SequencedEvent]) -> str:
    if len(events) != len(earlier):
        return f"it has {counted(len(events), 'event')}, that one {len(earlier)}"
    for number, (new, old) in enumerate(zip(events, earlier, strict=True), 1):
        if new.raw_id != old.raw_id:
            return f"event {number} of it has the id {new.id}, that of the other {old.id}"
        if differences := _differences(new, old):
            return f"event {number} of it has {' and '.join(f'other {name}' for name in differences)}"
    raise AssertionError("it is a repeat")


def _differences(new: Event, old: SequencedEvent) -> list[str]:
    """What a repeat must say again, and this one does not."""
    return [name for name in _SAID_AGAIN if getattr(new, name) != getattr(old, name)]


def record_status(guard: AppendCondition | None, *, record_conditions: bool) -> Status:
    """What can be said later about the condition of an append."""
    if guard is None:
        return "unconditional"
    for part in guard.parts:
        query = part.fail_if_events_match
        if query.has_where and any(callable(item.where) for item in query.items):
            return "not_auditable"
    return "recorded" if record_conditions else "not_recorded"


def check_increases(tracking: tuple[str, int], tracked: int | None) -> None:
    """Refuse a position of a source that is not after the one that the log has."""
    source, position = tracking
    if tracked is not None and position <= tracked:
        raise TrackingConflict(source=source, position=position, tracked=tracked)


def refuse_beyond_head(condition: AppendCondition, head: int) -> None:
    """Raise if a part of a condition is about a position that the log has not reached, before any part is judged."""
    newest = max([part.after for part in condition.parts])
    if newest > head:
        raise position_beyond_head(newest, head)


def position_beyond_head(after: int, head: int) -> InvalidInput:
    """The error for a position that this log has not reached."""
    return InvalidInput(
        f"after is {after}, but the head of this log is {head}",
        hint="the position comes from another log, or this log was restored from a backup: read again",
    )


def retag_hint(position: int) -> str:
    """The hint of a refusal by a retag."""
    return f"event {position} has other tags now, and the query matches it with the old or the new ones: read again and decide again"
