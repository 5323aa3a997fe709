"""The eventsourcing integration as users write it; held against mypy and pyright, both strict. Not run, only read."""

from __future__ import annotations

from typing import Any, assert_type

from eventsourcing.dcb.api import DCBEvent, DCBQuery, DCBRecorder, DCBSequencedEvent
from eventsourcing.persistence import Tracking
from eventsourcing.projection import Projection

from strandline import EventStore
from strandline.integrations.eventsourcing import Factory, ReadResponse, Recorder, Subscription, TrackedView


def use(factory: Factory, store: EventStore) -> None:
    recorder: DCBRecorder = factory.dcb_recorder()
    assert_type(recorder.append([DCBEvent("A", b"")]), int)
    ours = Recorder(store)
    assert_type(ours.read(DCBQuery(), after=1, limit=2), ReadResponse)
    assert_type(ours.read().head, int | None)
    with ours.subscribe() as subscription:
        assert_type(subscription, Subscription)
        assert_type(next(subscription), DCBSequencedEvent)


class Roster(TrackedView):
    def add(self, name: str, tracking: Tracking) -> None:
        self.record(tracking, name)

    def apply(self, change: Any) -> None:
        self.catch_up()


class Enrolment(Projection[Roster]):
    def process_event(self, domain_event: Any, tracking: Tracking) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        assert_type(self.view, Roster)
