"""Where a story is played: a store in memory in which it has happened."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, TypeVar

from ..append import AppendRequest, AppendResult
from ..domain.projection import Projection
from ..domain.steps import Answer, Append, Step
from ..engine.memory import MemoryEngine
from ..engine.rules import Time
from ..store import EventStore
from ..tag_id import IdValue
from .clock import START, ManualClock

E = TypeVar("E", bound=Exception)
Projected = TypeVar("Projected", bound=Projection)


class Act(NamedTuple):
    """An append of a story, and when it happened, if that is known."""

    request: AppendRequest
    at: datetime | None

    def no_later_than(self, first: datetime) -> Act:
        """The act as the first time that a story names shows it."""
        return Act(self.request, first if self.at is None else min(self.at, first))


class Rehearsal(EventStore):
    """Begins with what happened, and notes it and what decisions append; `acts` have their times."""

    def __init__(self, acts: Sequence[Act], now: datetime | None, *, strict_tags: bool = False) -> None:
        clock = ManualClock()
        super().__init__(MemoryEngine(Time(clock)), decision_cache=0, strict_tags=strict_tags)
        self.clock = clock
        self.acts: list[Act] = []
        for act in acts:
            clock.now = act.at or START
            self._perform(Append(act.request))
        clock.now = now or START

    def _perform(self, step: Step) -> Answer:
        answer = super()._perform(step)
        if isinstance(step, Append) and isinstance(answer, AppendResult) and not answer.duplicate:
            self.acts.append(Act(step.request, self.clock()))
        return answer


def fold(store: EventStore, projection: type[Projected] | Projected, *key: IdValue) -> Projected:
    """`store.project`; an error of a handler is shown without our part."""
    __tracebackhide__ = True
    try:
        return store.project(projection, *key)
    except Exception as error:  # noqa: BLE001  (raised again)
        raise without_our_frames(error)


def without_our_frames(error: E) -> E:
    """The error with the part of its traceback that begins in a user's code, if there is such a part."""
    own = error.__traceback__
    while own is not None and own.tb_frame.f_globals.get("__name__", "").startswith("strandline."):
        own = own.tb_next
    return error.with_traceback(own or error.__traceback__)
