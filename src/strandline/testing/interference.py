"""Conflicts on demand: somebody else appends between the read and the append of a decision."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ..aio import AsyncEventStore
from ..append import AnyEvent, AppendRequest, AppendResult
from ..domain.cache import DecisionCache
from ..domain.steps import Answer, Append, Step
from ..errors import InvalidInput, StrandlineError
from ..store import EventStore

Rival = AnyEvent | Iterable[AnyEvent] | Callable[[], object]

_is_acting: ContextVar[bool] = ContextVar("a rival is acting", default=False)


@contextmanager
def interfering(store: EventStore | AsyncEventStore, *rivals: Rival) -> Iterator[Interference]:
    """Let a rival act between the read and the append of each decision of this store, until all have.

    A rival is an event, or a list of events, that somebody else appends, or a callable that does
    whatever it likes (of an async store: also one that is to be awaited). An attempt meets one
    rival; what rivals do themselves is left alone. `used` says how many have acted.
    """
    if not isinstance(store, (EventStore, AsyncEventStore)):
        raise InvalidInput(
            f"rivals interfere with a store, not with {store!r:.60}", hint="write interfering(store, event)"
        )
    interference = Interference(store, rivals)
    # Without kept states: each attempt reads, and each meets a rival, whatever was decided before.
    decided_by = store if isinstance(store, EventStore) else store.store
    kept, decided_by.decisions = decided_by.decisions, DecisionCache(0)
    before = vars(store).get("_perform")  # another interference, if they are nested
    store._perform = interference.perform()  # type: ignore[method-assign]
    try:
        yield interference
    finally:
        decided_by.decisions = kept
        if before is None:
            del store._perform
        else:
            store._perform = before  # type: ignore[method-assign]


class Interference:
    """The rivals of a store's decisions."""

    def __init__(self, store: EventStore | AsyncEventStore, rivals: Sequence[Rival]) -> None:
        self.used = 0
        self._store = store
        self._waiting = deque(_action(store, rival) for rival in rivals)

    def perform(self) -> Any:
        """How the store takes a step while rivals are about."""
        if isinstance(self._store, AsyncEventStore):
            return self._perform_async(self._store)
        return self._perform(self._store)

    def _perform(self, store: EventStore) -> Callable[[Step], Answer]:
        perform = store._perform

        def interfered(step: Step) -> Answer:
            with self._turn(step) as rival:
                if rival is not None:
                    _check(rival())
            return perform(step)

        return interfered

    def _perform_async(self, store: AsyncEventStore) -> Any:
        perform = store._perform

        async def interfered(step: Step) -> Answer:
            with self._turn(step) as rival:
                if rival is not None:
                    outcome = rival()
                    _check(await outcome if inspect.isawaitable(outcome) else outcome)
            return await perform(step)

        return interfered

    @contextmanager
    def _turn(self, step: Step) -> Iterator[Callable[[], object] | None]:
        """The rival whose turn it is before this step."""
        rival = self._next() if isinstance(step, Append) and not _is_acting.get() else None
        if rival is None:
            yield None
            return
        acting = _is_acting.set(True)
        try:
            yield rival
        except StrandlineError as error:  # the decision must not take it for the answer to its own append
            raise AssertionError(f"a rival failed: {error}") from error
        finally:
            _is_acting.reset(acting)
        self.used += 1

    def _next(self) -> Callable[[], object] | None:
        try:
            return self._waiting.popleft()
        except IndexError:  # not asked before: another thread may be faster
            return None


def _action(store: EventStore | AsyncEventStore, rival: Rival) -> Callable[[], object]:
    if callable(rival):
        return rival
    events = AppendRequest(rival).events
    return lambda: store.append(events)


def _check(outcome: object) -> None:
    if inspect.iscoroutine(outcome):
        outcome.close()  # nobody will await it
        raise InvalidInput("a rival of this store cannot be awaited", hint="give a plain function")
    if isinstance(outcome, AppendResult) and outcome.duplicate:
        raise InvalidInput(
            "its events are in the log already, so it wrote nothing", hint="give each rival events of its own"
        )
