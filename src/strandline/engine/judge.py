"""Judging requests one after another, inside the critical section: ids, `unless_exists`, tracking, condition, retags.

The order and the meaning are here; an engine says how to look at its log and how to write to it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from ..append import AppendCondition, AppendRequest, AppendResult
from ..errors import AppendConditionFailed, StrandlineError
from ..event import Event, SequencedEvent
from ..names import RESERVED
from ..query import Query
from ..retag import Change, Retag, Retagged, RetagHistory, plan, retag_events
from . import Outcome, Work
from .rules import check_increases, id_conflict, is_repeat, refuse_beyond_head, retag_hint

PlannedChange = tuple[SequencedEvent, Change, tuple[str, ...]]


class Judge(ABC):
    """Judges requests in a transaction in which nobody else writes."""

    refused = 0

    def outcome(self, work: Work) -> Outcome:
        """Judge a request and write what it asks for; an error that is an answer is returned."""
        try:
            return self._retag(work) if isinstance(work, Retag) else self._append(work)
        except StrandlineError as error:
            self.refused += isinstance(error, AppendConditionFailed)
            return error

    def _append(self, request: AppendRequest) -> AppendResult:
        repeated = self._repeat(request.events)
        if repeated is not None:
            return repeated
        if request.unless_exists is not None:
            found = self._first(request.unless_exists, 0)
            if found is not None:
                return self._result_holding(found)
        if request.tracking is not None:
            check_increases(request.tracking, self._tracked(request.tracking[0]))
        if request.condition is not None:
            refuse_beyond_head(request.condition, self._head())
            for part in request.condition.parts:
                self._check(part)
        return self._write(request)

    def _write(self, request: AppendRequest) -> AppendResult:
        result = AppendResult(self._head(), self._head(), 0)
        if request.events:
            result = self._insert(request.to_write(), request.guard())
        if request.tracking is not None:
            self._track(*request.tracking)
        return result

    def _repeat(self, events: Sequence[Event]) -> AppendResult | None:
        if not events:
            return None
        ids = {event.raw_id for event in events}
        position = self._position_of(ids)
        if position is None and len(ids) == len(events):
            return None
        if position is not None:
            result = self._result_holding(position)
            earlier = self._events_appended(result.first, result.last)
            if is_repeat(events, earlier):
                return result
            raise id_conflict(events, earlier)
        raise id_conflict(events, ())

    def _check(self, part: AppendCondition) -> None:
        query, after = part.fail_if_events_match, part.after
        if after == self._head():
            return
        retag = self._conflicting_retag(query, after) if self._last_retag() > after else None
        found = self._first(query, after)
        if found is None and retag is None:
            return
        if retag is not None and (found is None or retag[0] <= found):
            found, hint = retag[0], retag_hint(retag[1])
        else:
            hint = None
        (conflict,) = self._events_at([found])  # type: ignore[list-item]
        raise AppendConditionFailed(conflict=conflict, part=part, hint=hint)

    def _conflicting_retag(self, query: Query, after: int) -> tuple[int, int] | None:
        """Return the first retag of an event that the query matches before or after it, and the position of that event."""
        history = RetagHistory(self._retags_after(after))
        for retag, positions in history.by_retag.items():
            for event in self._events_at(positions):
                if history.concern(query, event, retag):
                    return retag, event.position
        return None

    def _retag(self, retag: Retag) -> Retagged:
        changes = list(plan(retag, self._targets(retag)))
        if not changes:
            return Retagged(self._head(), self._head(), 0)
        result = self._insert_retag(retag_events([change for _, change, _ in changes]), changes)
        return Retagged.of(result, len(changes))

    def _targets(self, retag: Retag) -> list[SequencedEvent]:
        if isinstance(retag.target, Query):
            found = self._matching(retag.target)
            return [event for event in found if not event.type.startswith(RESERVED)]
        events = {event.position: event for event in self._events_at(retag.target)}
        return [retag.checked(position, events.get(position)) for position in retag.target]

    @abstractmethod
    def _head(self) -> int:
        """The last position, counting what this transaction wrote."""

    @abstractmethod
    def _last_retag(self) -> int:
        """The last position of a `$retagged` event, 0 if there is none."""

    @abstractmethod
    def _position_of(self, ids: set[bytes]) -> int | None:
        """The first position that has one of the ids."""

    @abstractmethod
    def _first(self, query: Query, after: int) -> int | None:
        """The first matching position after `after`."""

    @abstractmethod
    def _matching(self, query: Query) -> Iterable[SequencedEvent]:
        """Every matching event."""

    @abstractmethod
    def _events_at(self, positions: Sequence[int]) -> list[SequencedEvent]:
        """The events at these positions, as far as there are any."""

    @abstractmethod
    def _retags_after(self, after: int) -> list[SequencedEvent]:
        """The `$retagged` events after a position, in order."""

    @abstractmethod
    def _tracked(self, source: str) -> int | None:
        """The last position of a source, counting what this transaction wrote."""

    @abstractmethod
    def _track(self, source: str, position: int) -> None:
        """Write the last position of a source."""

    @abstractmethod
    def _events_appended(self, first: int, last: int) -> list[SequencedEvent]:
        """These events with their tags as appended."""

    @abstractmethod
    def _result_holding(self, position: int) -> AppendResult:
        """The append that wrote a position, as a duplicate."""

    @abstractmethod
    def _insert(self, events: Sequence[Event], guard: AppendCondition | None) -> AppendResult:
        """Write the events at the next positions."""

    @abstractmethod
    def _insert_retag(self, events: Sequence[Event], changes: Sequence[PlannedChange]) -> AppendResult:
        """Write `$retagged` events and do what they say."""
