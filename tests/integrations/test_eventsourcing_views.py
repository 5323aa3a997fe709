"""Read models of DCB applications: where their state and position are, and what survives."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from eventsourcing.dcb.api import DCBAppendCondition, DCBEvent
from eventsourcing.dcb.domain import Tagged
from eventsourcing.dcb.msgpack import Decision
from eventsourcing.persistence import DataError, IntegrityError, NotSupportedError, Tracking
from eventsourcing.popo import POPOTrackingRecorder
from eventsourcing.projection import Projection, ProjectionRunner
from eventsourcing.sqlite import SQLiteTrackingRecorder
from school import School, StudentJoined

from strandline.integrations.eventsourcing import Factory, Recorder, TrackedView


class RosterInLog(TrackedView):
    """Who has joined which course, in the order of joining."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.joined: list[list[str]] = []

    def add(self, student: str, course: str, tracking: Tracking) -> None:
        self.record(tracking, (student, course))

    def apply(self, change: Any) -> None:
        self.joined.append(change)

    def roster(self) -> list[list[str]]:
        self.catch_up()
        return self.joined


class RosterInMemory(POPOTrackingRecorder):
    def __init__(self) -> None:
        super().__init__()
        self.joined: list[list[str]] = []

    def add(self, student: str, course: str, tracking: Tracking) -> None:
        self.insert_tracking(tracking)
        self.joined.append([student, course])

    def roster(self) -> list[list[str]]:
        return self.joined


class RosterInSql(SQLiteTrackingRecorder):
    def construct_create_table_statements(self) -> list[str]:
        statements = super().construct_create_table_statements()
        return [*statements, "CREATE TABLE IF NOT EXISTS roster (student TEXT, course TEXT)"]

    def add(self, student: str, course: str, tracking: Tracking) -> None:
        with self.datastore.transaction(commit=True) as cursor:
            self._insert_tracking(cursor, tracking)
            cursor.execute("INSERT INTO roster VALUES (?, ?)", (student, course))

    def roster(self) -> list[list[str]]:
        with self.datastore.transaction(commit=False) as cursor:
            cursor.execute("SELECT student, course FROM roster ORDER BY rowid")
            return [[*row] for row in cursor.fetchall()]


class Roster(Projection[Any]):
    name = "roster"
    topics = ("school:StudentJoined",)
    seen = 0

    def process_event(self, domain_event: Tagged[Decision], tracking: Tracking) -> None:
        decision = domain_event.decision
        assert isinstance(decision, StudentJoined)
        type(self).seen += 1
        self.view.add(decision.student, decision.course, tracking)


@pytest.fixture(autouse=True)
def _nothing_is_seen() -> None:
    Roster.seen = 0


def run(settings: dict[str, str], view: type, *students: str) -> list[list[str]]:
    """Let the students join while the projection runs, and return its roster."""
    with ProjectionRunner(
        application_class=School, projection_class=Roster, view_class=view, env=settings
    ) as runner:
        for student in students:
            runner.app.join(student, "algebra")
        runner.wait(list(runner.app.recorder.read())[-1].position, timeout=30)
        return [*runner.projection.view.roster()]


SQL = {"ROSTER_PERSISTENCE_MODULE": "eventsourcing.sqlite"}
ALL = [["ada", "algebra"], ["bob", "algebra"], ["eve", "algebra"]]


@pytest.mark.parametrize(("view", "seen"), [(RosterInLog, 3), (RosterInSql, 3), (RosterInMemory, 5)])
def test_a_projection_goes_on_where_it_stopped_if_its_view_is_kept(
    kept_settings: dict[str, str], tmp_path: Path, view: type, seen: int
) -> None:
    if view is RosterInSql:
        kept_settings |= SQL | {"ROSTER_SQLITE_DBNAME": str(tmp_path / "roster.sqlite")}
    with School(kept_settings) as school:
        school.open("algebra", seats=9)
    assert run(kept_settings, view, "ada", "bob") == ALL[:2]
    assert run(kept_settings, view, "eve") == ALL
    assert Roster.seen == seen  # a view in memory is filled again from the beginning


def test_a_projection_of_every_type_is_not_fed_with_its_own_tracking(kept_settings: dict[str, str]) -> None:
    class Everything(Roster):
        name = "everything"
        topics = ()

        def process_event(self, domain_event: Tagged[Decision], tracking: Tracking) -> None:
            type(self).seen += 1
            self.view.record(tracking)

    with ProjectionRunner(
        application_class=School, projection_class=Everything, view_class=RosterInLog, env=kept_settings
    ) as runner:
        runner.app.open("algebra", seats=9)
        runner.app.join("ada", "algebra")
        runner.wait(list(runner.app.recorder.read())[-1].position, timeout=30)
        assert Everything.seen == 2


@pytest.fixture
def view(recorder: Recorder) -> RosterInLog:
    return RosterInLog(recorder.store, "roster")


def test_views_in_the_log_of_an_application_do_not_disturb_it(recorder: Recorder, view: RosterInLog) -> None:
    recorder.append([DCBEvent("A", b"", ["t"])])
    view.add("ada", "algebra", Tracking("School", 1))
    assert [event.position for event in recorder.read()] == [1]
    assert recorder.append([DCBEvent("A", b"")], DCBAppendCondition(after=1)) == 3
    with recorder.subscribe() as subscription:
        assert [next(subscription).position for _ in range(2)] == [1, 3]


def test_a_position_is_tracked_once_whoever_tracks_it(recorder: Recorder, view: RosterInLog) -> None:
    other = RosterInLog(recorder.store, "roster")
    view.add("ada", "algebra", Tracking("School", 7))
    with pytest.raises(IntegrityError, match="position 7 of School is not after 7"):
        other.add("ada", "algebra", Tracking("School", 7))
    other.add("bob", "algebra", Tracking("School", 8))
    assert view.roster() == other.roster() == ALL[:2]
    assert view.max_tracking_id("School") == 8
    assert view.max_tracking_id("Academy") is None


def test_views_with_other_names_are_other_views(recorder: Recorder, view: RosterInLog) -> None:
    other = RosterInLog(recorder.store, "other")
    view.add("ada", "algebra", Tracking("School", 7))
    assert other.roster() == []
    other.add("ada", "algebra", Tracking("School", 7))


def test_a_view_that_many_threads_change_takes_each_change_once(recorder: Recorder) -> None:
    views = [RosterInLog(recorder.store, "roster") for _ in range(3)]

    def work(view: RosterInLog, application: str) -> None:
        for position in range(1, 21):
            view.add(application, str(position), Tracking(application, position))

    threads = [threading.Thread(target=work, args=(view, str(n))) for n, view in enumerate(views)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert views[0].roster() == views[1].roster() == views[2].roster()
    assert sorted(views[0].roster()) == sorted([str(n), str(p)] for n in range(3) for p in range(1, 21))


def test_a_change_that_cannot_be_applied_is_not_passed_over(recorder: Recorder) -> None:
    class Picky(RosterInLog):
        def apply(self, change: Any) -> None:
            if change == "x":
                raise ValueError(change)
            super().apply(change)

    for position, change in enumerate(["a", "x", "b"], 1):
        TrackedView(recorder.store, "roster").record(Tracking("School", position), change)
    view = Picky(recorder.store, "roster")
    for _ in range(2):
        with pytest.raises(ValueError, match="x"):
            view.max_tracking_id("School")
    assert view.joined == ["a"]


def test_a_change_that_is_no_json_is_refused(view: RosterInLog) -> None:
    with pytest.raises(DataError, match="has no JSON form"):
        view.record(Tracking("School", 1), object())
    assert view.max_tracking_id("School") is None


def test_the_view_may_be_named_by_a_setting(settings: dict[str, str]) -> None:
    factory = Factory(settings | {"TRACKING_RECORDER_TOPIC": "test_eventsourcing_views:RosterInLog"})
    assert type(factory.tracking_recorder()) is RosterInLog
    assert type(factory.tracking_recorder(RosterInMemory)) is RosterInMemory
    factory.close()
    assert type(Factory({"STRANDLINE_URL": "memory:"}).tracking_recorder()) is TrackedView


def test_a_view_of_another_database_is_refused_with_the_setting_to_change(settings: dict[str, str]) -> None:
    with pytest.raises(NotSupportedError, match=r"RosterInSql .* set PERSISTENCE_MODULE to"):
        Factory(settings).tracking_recorder(RosterInSql)


def test_a_view_in_memory_needs_no_store() -> None:
    assert Factory({}).tracking_recorder(RosterInMemory).roster() == []
