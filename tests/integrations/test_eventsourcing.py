"""The test cases that ship with `eventsourcing`, as they are, on every engine of ours."""

from __future__ import annotations

from unittest import TestCase, defaultTestLoader

import pytest
from eventsourcing.dcb import tests as dcb
from eventsourcing.persistence import Tracking
from eventsourcing.popo import POPOTrackingRecorder
from eventsourcing.tests import application, persistence, projection

from strandline.integrations.eventsourcing import Factory, Recorder, TrackedView

CASES = {
    dcb.DCBRecorderTestCase,
    projection.EventCountersViewTestCase,
    projection.TaggedDecisionCountersProjectionTestCase,
    persistence.TrackingRecorderTestCase,
}
OF_AGGREGATES = {
    "AggregateEventCountersProjectionTestCase",
    "AggregateRecorderTestCase",
    "ApplicationRecorderTestCase",
    "ApplicationTestCase",
    "EventSourcedProjectionTestCase",
    "ExampleApplicationTestCase",
    "InfrastructureFactoryTestCase",
    "NonInterleavingNotificationIDsBaseCase",
    "ProcessRecorderTestCase",
    "RecorderTestCase",
    "TranscoderTestCase",
}


class CountersInLog(TrackedView, projection.EventCountersView):
    """Their example of a read model, kept in a log."""

    created = 0
    subsequent = 0

    def apply(self, change):
        self.created += change == "created"
        self.subsequent += change == "subsequent"

    def get_created_event_counter(self):
        self.catch_up()
        return self.created

    def get_subsequent_event_counter(self):
        self.catch_up()
        return self.subsequent

    def incr_created_event_counter(self, tracking: Tracking):
        self.record(tracking, "created")

    def incr_subsequent_event_counter(self, tracking: Tracking):
        self.record(tracking, "subsequent")


class CountersInMemory(POPOTrackingRecorder, projection.EventCountersView):
    """The same, kept as the library's own module for memory wants it."""

    def __init__(self):
        super().__init__()
        self.counted = {"created": 0, "subsequent": 0}

    def _count(self, kind, tracking):
        with self._database_lock:
            self._assert_tracking_uniqueness(tracking)
            self._insert_tracking(tracking)
            self.counted[kind] += 1

    def get_created_event_counter(self):
        return self.counted["created"]

    def get_subsequent_event_counter(self):
        return self.counted["subsequent"]

    def incr_created_event_counter(self, tracking: Tracking):
        self._count("created", tracking)

    def incr_subsequent_event_counter(self, tracking: Tracking):
        self._count("subsequent", tracking)


VIEWS = [CountersInLog, CountersInMemory]


def names_in(case):
    names = defaultTestLoader.getTestCaseNames(case)
    assert names
    return names


def test_no_test_case_of_the_package_is_forgotten() -> None:
    shipped = {
        value
        for module in (dcb, projection, persistence, application)
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, TestCase) and value is not TestCase
    }
    assert {case for case in shipped if case.__name__ not in OF_AGGREGATES} == CASES
    assert {case.__name__ for case in shipped} >= OF_AGGREGATES


def test_no_test_of_the_recorder_case_is_forgotten() -> None:
    named = {name for name in vars(dcb.DCBRecorderTestCase) if "test" in name}
    assert named == {"_test_append_read", "_test_append_subscribe"}


@pytest.mark.parametrize("name", ["_test_append_read", "_test_append_subscribe"])
def test_recorder(recorder: Recorder, name: str) -> None:
    getattr(dcb.DCBRecorderTestCase(), name)(recorder)


@pytest.mark.parametrize("name", ["_test_append_read", "_test_append_subscribe"])
def test_recorder_of_a_log_that_is_not_empty(recorder: Recorder, name: str) -> None:
    dcb.DCBRecorderTestCase()._test_append_read(recorder)
    getattr(dcb.DCBRecorderTestCase(), name)(recorder, initial_position=13)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", names_in(projection.TaggedDecisionCountersProjectionTestCase))
def test_projection_of_a_dcb_application(settings: dict[str, str], view: type, name: str) -> None:
    class Case(projection.TaggedDecisionCountersProjectionTestCase):
        view_class = view
        env = settings

    Case(name).debug()


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", names_in(projection.EventCountersViewTestCase))
def test_view(settings: dict[str, str], view: type, name: str) -> None:
    class Case(projection.EventCountersViewTestCase):
        def construct_event_counters_view(self):
            factory = Factory(settings)
            self.addCleanup(factory.close)
            return factory.tracking_recorder(view)

    Case(name).debug()


@pytest.mark.parametrize("name", names_in(persistence.TrackingRecorderTestCase))
def test_tracking_recorder(settings: dict[str, str], name: str) -> None:
    class Case(persistence.TrackingRecorderTestCase):
        def create_recorder(self):
            factory = Factory(settings)
            self.addCleanup(factory.close)
            return factory.tracking_recorder()

    Case(name).debug()
