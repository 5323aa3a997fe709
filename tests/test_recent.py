"""The newest part of the index: what is interrupted or older than it must not be taken for complete."""

from __future__ import annotations

from pathlib import Path

import pytest

import strandline
from elsewhere import elsewhere
from strandline import AppendCondition, AppendConditionFailed, Event, Query, QueryItem
from strandline.engine.maintenance import check_log
from strandline.engine.sqlite import pending, recent
from strandline.engine.sqlite.recent import Recent, Segment
from strandline.engine.sqlite.search import Search
from tiny_segments import LIMITS


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in LIMITS:
        monkeypatch.setattr(module, name, value)


def marks(path: Path) -> tuple[int, int]:
    """How far the index in the file goes, and how many entries are in it."""
    with strandline.connect(path) as store:
        execute = store.engine._connection.execute  # type: ignore[attr-defined]
        return execute("select indexed_to from log")[0][0], execute("select count(*) from posting")[0][0]


def test_entries_settle_segment_by_segment(path: Path, tiny: None) -> None:
    with strandline.connect(path) as store:
        for number in range(100):
            store.append(Event("A", number, tags=[f"t:{number % 7}"]))
    indexed_to, entries = marks(path)
    assert indexed_to >= 100 - 3 * recent.SEGMENT_EVENTS
    assert indexed_to % recent.SEGMENT_EVENTS == 0
    assert entries >= 2 * indexed_to
    assert check_log(path).problems == []


def test_processes_too_short_to_settle_in_steps_settle_a_whole_segment(
    path: Path, tiny: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending, "SETTLE_AT_LEAST", 1_000)
    for number in range(60):
        with strandline.connect(path) as store:
            store.append(Event("A", number, tags=[f"t:{number % 7}"]))
    assert marks(path)[0] >= 60 - 3 * recent.SEGMENT_EVENTS
    assert check_log(path).problems == []


def test_a_commit_that_is_interrupted_before_it_is_noted_is_noticed_by_the_next(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit stands, its caller knows nothing, and no later decision may overlook it."""

    class Halfway(Segment):
        def extend(self, newer: Segment) -> None:
            Segment.extend(self, Segment(newer.after))
            first = min(newer._positions)
            self._positions[first] = newer._positions[first]
            raise KeyboardInterrupt

    with strandline.connect(path) as store:
        store.append(Event("A", 0, tags=["x"]))
        with monkeypatch.context() as patched:
            patched.setattr(recent, "Segment", Halfway)
            store.engine._recent._segments = ()  # type: ignore[attr-defined]
            with pytest.raises(KeyboardInterrupt):
                store.append(Event("A", 1, tags=["x", "y"]))
        assert store.head() == 2
        for tag in ("x", "y"):
            with pytest.raises(AppendConditionFailed) as refusal:
                store.append(Event("A", 2), AppendCondition(Query.tag(tag), after=1))
            assert refusal.value.conflict.position == 2
        assert [event.position for event in store.read(Query.tag("x"))] == [1, 2]
        assert store.append(Event("A", 3)).position == 3
        assert len(list(store.appends())) == 3
    assert check_log(path).problems == []


def test_a_reader_of_an_older_snapshot_sees_what_it_saw(path: Path, tiny: None) -> None:
    """While it reads, the others move the index past it and forget what it needs."""
    query = Query.of(QueryItem(types=["A"], tags=["x"]))
    with strandline.connect(path) as store:
        for number in range(20):
            store.append(Event("A", number, tags=["x"]))

        def read_while_others_write(search: Search) -> None:
            before = search.indexed_to
            for number in range(60):
                elsewhere(store.append, Event("A", number, tags=["x", f"t:{number}"]))
            search.segments = search._recent.covering(search.connection, search.indexed_to, search.head)
            assert search.segments[0].after == before
            assert [event.position for event in search.matching(query)] == list(range(1, 21))

        store.engine._look(read_while_others_write, is_long=True)  # type: ignore[attr-defined]
        assert store.count(query) == 80


def test_segments_that_the_file_has_are_dropped(path: Path, tiny: None) -> None:
    with strandline.connect(path) as store:
        for number in range(200):
            store.append(Event("A", number, tags=[f"t:{number}"]))
        kept: Recent = store.engine._recent  # type: ignore[attr-defined]
        assert len(kept._segments) <= 4


def test_any_number_of_events_is_written_as_it_is(path: Path, tiny: None) -> None:
    """Rows go in several at a time, and those that are left over too."""
    with strandline.connect(path) as store:
        for count in range(1, 40):
            store.append([Event("A", number, tags=[f"of:{count}"]) for number in range(count)])
        for count in range(1, 40):
            assert [event.json() for event in store.read(Query.tag(f"of:{count}"))] == list(range(count))
    assert check_log(path).problems == []
