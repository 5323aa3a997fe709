"""Read models whose state and position are events of a log: each change is one append."""

from __future__ import annotations

import threading
from typing import Any

from eventsourcing.persistence import IntegrityError, Tracking, TrackingRecorder

from ...append import AppendCondition
from ...errors import AppendConditionFailed, StrandlineError
from ...event import Event, SequencedEvent
from ...query import Query
from ...store import EventStore
from .translation import TRACKED, to_their_error


class TrackedView(TrackingRecorder):
    """A read model that is folded from its own changes, which the log keeps with their tracking.

    A view changes itself only by `record`, takes changes in `apply`, and calls `catch_up` before it
    answers, because other processes may have recorded more:

        class Attendance(TrackedView):
            joined = 0

            def count(self, tracking: Tracking) -> None:
                self.record(tracking, {"joined": 1})

            def apply(self, change: Any) -> None:
                self.joined += change["joined"]
    """

    def __init__(self, store: EventStore, name: str) -> None:
        self.store = store
        self._stream = f"{TRACKED}:{name}"
        self._query = Query.stream(self._stream)
        self._caught_up_to = 0
        self._tracked: dict[str, int] = {}
        self._lock = threading.RLock()

    def apply(self, change: Any) -> None:
        """Take a change into the view's state; called once for each, in order, in every process."""

    def record(self, tracking: Tracking, change: Any = None) -> None:
        """Write a change (a JSON value) and its tracking at once.

        `IntegrityError` if the view has tracked that position of the application, or a later one.
        """
        try:
            data = {
                "application_name": tracking.application_name,
                "notification_id": tracking.notification_id,
                "change": change,
            }
            event = Event(TRACKED, data, stream=self._stream)
            with self._lock:
                while not self._has_recorded(event, tracking):
                    self.catch_up()
                self.catch_up()
        except StrandlineError as error:
            raise to_their_error(error) from error

    def _has_recorded(self, event: Event, tracking: Tracking) -> bool:
        """Whether the event is written now; if not, another process has recorded something meanwhile."""
        last = self._tracked.get(tracking.application_name)
        if last is not None and tracking.notification_id <= last:
            raise IntegrityError(
                f"position {tracking.notification_id} of {tracking.application_name} is not after {last},"
                " which is tracked already"
            )
        try:
            self.store.append(event, AppendCondition(self._query, self._caught_up_to))
        except AppendConditionFailed:
            return False
        return True

    def catch_up(self) -> None:
        """Apply what was recorded since the last time, also by other processes."""
        try:
            with self._lock:
                read = self.store.read(self._query, after=self._caught_up_to)
                for event in read:
                    self._take(event)
                self._caught_up_to = read.head
        except StrandlineError as error:
            raise to_their_error(error) from error

    def _take(self, event: SequencedEvent) -> None:
        recorded = event.json()
        if recorded["change"] is not None:
            self.apply(recorded["change"])
        self._tracked[recorded["application_name"]] = recorded["notification_id"]
        self._caught_up_to = event.position

    def insert_tracking(self, tracking: Tracking) -> None:
        """Track a position at which nothing changed."""
        self.record(tracking)

    def max_tracking_id(self, application_name: str) -> int | None:
        """The last position of the application that is tracked, None if there is none."""
        self.catch_up()
        return self._tracked.get(application_name)
