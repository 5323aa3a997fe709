"""Small rules that every engine applies alike."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ..append import AppendCondition, Status
from ..errors import InvalidInput
from ..event import Event, SequencedEvent, to_microseconds
from . import Clock


class Time:
    """The clock of a log: microseconds that never decrease."""

    def __init__(self, clock: Clock | None = None) -> None:
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


def is_repeat(
    events: Sequence[Event], earlier: Sequence[SequencedEvent], tags: Sequence[tuple[str, ...]]
) -> bool:
    """Whether an append says again, in order, what an earlier one wrote (`tags` as appended)."""
    return len(events) == len(earlier) and all(
        new.raw_id == old.raw_id
        and new.type == old.type
        and new.data == old.data
        and new.stream == old.stream
        and new.subject == old.subject
        and new.tags == old_tags
        for new, old, old_tags in zip(events, earlier, tags, strict=True)
    )


def record_status(guard: AppendCondition | None, *, record_conditions: bool) -> Status:
    """What can be said later about the condition of an append."""
    if guard is None:
        return "unconditional"
    for part in guard.parts:
        query = part.fail_if_events_match
        if query.has_where and any(callable(item.where) for item in query.items):
            return "not_auditable"
    return "recorded" if record_conditions else "not_recorded"


def position_beyond_head(after: int, head: int) -> InvalidInput:
    """The error for a position that this log has not reached."""
    return InvalidInput(
        f"after is {after}, but the head of this log is {head}",
        hint="the position comes from another log, or this log was restored from a backup: read again",
    )


def retag_hint(position: int) -> str:
    """The hint of a refusal by a retag."""
    return f"event {position} was retagged and entered or left the query: read again and decide again"
