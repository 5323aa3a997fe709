"""The loop of every decision: decide, append; on conflict again."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ..append import AppendRequest, AppendResult
from ..engine import Page, Span
from ..errors import AppendConditionFailed
from ..event import Event, SequencedEvent
from ..query import Query
from .command import Executed
from .steps import Append, Pause, ReadEvents, Steps, TellMissingTags

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.002, 0.25


class Decided(msgspec.Struct, frozen=True):
    """What a decision came to: the append that it asks for, or what there is to say without one."""

    request: AppendRequest | None
    value: Any
    result: AppendResult
    told: Sequence[TellMissingTags] = ()
    on_accepted: Callable[[AppendResult], Steps[None]] | None = None
    head: int = 0
    """The position up to which the log was read."""
    events: tuple[Event, ...] = ()
    """What was written before, if this is a repeat."""
    check_repeat: Callable[[Sequence[SequencedEvent]], None] | None = None
    """Raises if an earlier append with the same key was another one."""

    @property
    def is_append(self) -> bool:
        """Whether something is to be written, or was before."""
        return self.request is not None or self.result.duplicate

    @classmethod
    def nothing(cls, value: Any, head: int) -> Decided:
        """Nothing is to be written; the decision saw the log up to `head`."""
        return cls(None, value, AppendResult(head, head, 0), head=head)

    def executed(self, result: AppendResult, attempts: int) -> Executed[Any]:
        """What came of it, if it was not done before."""
        events = () if self.request is None else self.request.events
        if self.check_repeat is not None:
            events = tuple([event.without_arguments() for event in events])
        return Executed(
            result.first, result.last, result.count, False, self.value, attempts, events, self.head
        )

    def repeated(self, result: AppendResult, attempts: int) -> Steps[Executed[Any]]:
        """What came of it, if it was done before: the events that were written then."""
        events = self.events
        if not events:
            found: Page = yield ReadEvents(Query.all(), Span(result.first - 1, result.last))
            if self.check_repeat is not None:
                self.check_repeat(found.events)
            events = tuple([event.as_written() for event in found.events])
        return Executed(result.first, result.last, result.count, True, None, attempts, events, self.head)


def until_accepted(
    decide: Callable[[], Steps[Decided]], attempts: int, *, refused: int = 0
) -> Steps[Executed[Any]]:
    """Decide and append until the append is accepted; the last refusal is raised. So many were `refused` before."""
    for attempt in range(1 + refused, attempts + 1):
        decided = yield from decide()
        yield from decided.told
        try:
            result = decided.result if decided.request is None else (yield Append(decided.request))
        except AppendConditionFailed as error:
            error.attempts = attempt
            if attempt == attempts:
                if error.hint == AppendConditionFailed.hint:
                    error.advise(_given_up(attempts))
                raise
        else:
            if result.duplicate:
                return (yield from decided.repeated(result, attempt))
            if decided.on_accepted is not None:
                yield from decided.on_accepted(result)
            return decided.executed(result, attempt)
        yield Pause(_jitter(attempt))
    raise AssertionError("there is one attempt at least")


def _given_up(attempts: int) -> str:
    times = "once" if attempts == 1 else f"{attempts} times"
    return (
        f"it was decided {times}, and others were faster each time: call it again, or allow more attempts:"
        f" command.with_options(attempts={2 * attempts}), or store.decide(…, attempts={2 * attempts})"
    )


def _jitter(attempt: int) -> float:
    """A random part of a pause that doubles: full jitter, so that rivals do not meet again."""
    return random.uniform(0, min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** (attempt - 1)))
