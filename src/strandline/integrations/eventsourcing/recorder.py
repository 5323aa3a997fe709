"""The recorder: their reads, appends and subscriptions, answered by an event store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from eventsourcing.dcb.api import (
    DCBAppendCondition,
    DCBEvent,
    DCBQuery,
    DCBReadResponse,
    DCBRecorder,
    DCBSequencedEvent,
    DCBSubscription,
)
from eventsourcing.persistence import IntegrityError

from ...append import AppendCondition, AppendResult
from ...engine.retags import concerning_retag
from ...errors import StrandlineError, Unavailable
from ...event import Event
from ...query import Query
from ...reading import Read
from ...store import EventStore
from .translation import from_event, to_after, to_condition, to_event, to_query, to_their_error


class Recorder(DCBRecorder):
    """Records the events of DCB applications in `store`."""

    def __init__(self, store: EventStore) -> None:
        self.store = store

    def read(
        self, query: DCBQuery | None = None, *, after: int | None = None, limit: int | None = None
    ) -> ReadResponse:
        """The matching events with positions greater than `after`, at most `limit` of them.

        Without a limit the read ends at its head, and whoever has read to `after` before may go on from
        there; `IntegrityError` if that state is no longer true because an event was retagged since.
        """
        try:
            ours = to_query(query)
            if limit == 0:
                return ReadResponse(iter(()), None)
            start = to_after(after)
            read = self.store.read(ours, after=start, limit=limit)
            if limit is None:
                self._check_state_at(start, ours, read.head)
                return ReadResponse(_events(read), read.head or None)
            events = list(map(from_event, read))
            return ReadResponse(iter(events), events[-1].position if events else None)
        except StrandlineError as error:
            raise to_their_error(error) from error

    def _check_state_at(self, start: int, query: Query, head: int) -> None:
        retag = concerning_retag(self.store.engine, query, (0, start), start, head)
        if retag is not None:
            raise IntegrityError(
                f"the retag at position {retag.position} changed an event that was read, or should have been read, up"
                f" to {start}: read from the beginning and decide again"
            )

    def append(self, events: Sequence[DCBEvent], condition: DCBAppendCondition | None = None) -> int:
        """Write the events atomically and return the last position; `IntegrityError` if the condition fails."""
        try:
            ours = [to_event(event) for event in events]
            return self._append(ours, None if condition is None else to_condition(condition)).position
        except StrandlineError as error:
            raise to_their_error(error) from error

    def _append(self, events: list[Event], condition: AppendCondition | None) -> AppendResult:
        try:
            return self.store.append(events, condition)
        except Unavailable as error:
            if error.written is False:
                raise
            unknown = error
        # Whether they were written, their ids tell; and nobody but us can send the same ids again.
        try:
            return self.store.append(events, condition)
        except Unavailable:
            raise unknown  # what the second attempt knows is not known of the first

    def subscribe(self, query: DCBQuery | None = None, *, after: int | None = None) -> Subscription:
        """The matching events with positions greater than `after`, then each new one as it is recorded."""
        return Subscription(self, query, after)


class ReadResponse(DCBReadResponse):
    """An iterator over events. `head` is the position to append after, None if there is none.

    With a limit it is the last position read, because nothing is known about what comes next.
    """

    def __init__(self, events: Iterator[DCBSequencedEvent], head: int | None) -> None:
        self._events = events
        self._head = head

    @property
    def head(self) -> int | None:
        """The head of the log when the read began; with a limit, the last position of the read."""
        return self._head

    def __next__(self) -> DCBSequencedEvent:
        return next(self._events)


class Subscription(DCBSubscription[Recorder]):
    """Iterates over events and waits for more, until it is stopped or the recorder's store is closed."""

    def __init__(self, recorder: Recorder, query: DCBQuery | None = None, after: int | None = None) -> None:
        super().__init__(recorder, query, after)
        try:
            self._events = recorder.store.subscribe(to_query(query), after=to_after(after))
        except StrandlineError as error:
            raise to_their_error(error) from error

    def stop(self) -> None:
        """End the iteration, from any thread."""
        super().stop()
        self._events.stop()

    def __next__(self) -> DCBSequencedEvent:
        try:
            event = next(self._events)
        except StrandlineError as error:
            raise to_their_error(error) from error
        self._last_position = event.position
        return from_event(event)


def _events(read: Read) -> Iterator[DCBSequencedEvent]:
    try:
        yield from map(from_event, read)
    except StrandlineError as error:
        raise to_their_error(error) from error
