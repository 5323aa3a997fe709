"""The pass that looks for suspects finds every append that should have been refused, and looks at each event once."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import strandline
from places import Place
from planting import plant, random_conditions, write_random_events
from strandline import AppendCondition, Event, EventStore, Query, QueryItem, query
from strandline.append import RecordedAppend
from strandline.engine import suspects as module
from strandline.engine.audit import History, violation
from strandline.engine.maintenance import check_log
from strandline.engine.suspects import suspects


@pytest.fixture(params=["sizes of use", "tiny"])
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few items in a batch, and gaps that are passed over, so that both come up in a short log."""
    if request.param == "tiny":
        monkeypatch.setattr(module, "MAX_ITEMS", 7)
        monkeypatch.setattr(module, "GAP", 1)


def judged_alone(store: EventStore, appends: list[RecordedAppend]) -> dict[int, int]:
    history = History(store.engine)
    found = ((append.first, violation(store.engine, history, append)) for append in appends)
    return {first: position for first, position in found if position is not None}


def with_random_conditions(store: EventStore, seed: int) -> list[RecordedAppend]:
    """The appends of a log, as if each had been accepted under some condition."""
    appends = {append.first: append for append in store.appends()}
    return [
        RecordedAppend(first, appends[first].last, condition, "recorded", appends[first].recorded_at)
        for first, condition in random_conditions(list(appends), random.Random(seed))
    ]


@pytest.mark.usefixtures("sizes")
@pytest.mark.parametrize("seed", range(12))
def test_the_suspects_are_the_appends_that_should_have_been_refused(seed: int):
    with strandline.connect("memory:") as store:
        write_random_events(store, random.Random(seed), 150)
        appends = with_random_conditions(store, seed)
        expected = judged_alone(store, appends)
        found = [*suspects(store.engine, History(store.engine), appends, lambda _: None)]

    assert found == [*expected]
    assert 20 < len(expected) < len(appends) - 20


def conditions(count: int) -> Iterator[AppendCondition]:
    """Conditions on a hot tag that look far back, each in the same two ways."""
    for _ in range(count):
        yield AppendCondition(Query.of(QueryItem(types=["Moved"], tags=["tenant:1"], where={"n": -1})), 1)
    for _ in range(count):
        yield AppendCondition(Query.tag("tenant:1", "account:none"), 1)


def test_check_looks_at_each_event_once_however_many_conditions_depend_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    count, size = 100, 10
    path = tmp_path / "log.db"
    with strandline.connect(path) as store:
        store.append(Event("Opened", {}, tags=["account:none"]))
        for number in range(2 * count):
            store.append([Event("Moved", {"n": number}, tags=["tenant:1"]) for _ in range(size)])
        firsts = [append.first for append in store.appends(after=1)]
    plant(Place(path), dict(zip(firsts, conditions(count), strict=True)))
    asked = 0

    def counted(*arguments):
        nonlocal asked
        asked += 1
        return matches(*arguments)

    matches = query.where_matches
    monkeypatch.setattr(query, "where_matches", counted)
    report = check_log(path)

    assert report.problems == []
    assert report.conditions == 2 * count
    assert 0 < asked <= count * size  # one by one: a hundred times as often


def test_check_tells_which_position_should_have_refused(tmp_path: Path):
    path = tmp_path / "log.db"
    with strandline.connect(path) as store:
        for number in range(50):
            store.append(Event("Moved", {"n": number}, tags=["account:1"]))
    moved = Query.of(QueryItem(types=["Moved"], tags=["account:1"], where={"n": {"$gte": 20}}))
    plant(Place(path), {30: AppendCondition(moved, 5), 20: AppendCondition(moved, 5)})

    (problem,) = check_log(path).problems
    assert (problem.kind, problem.position) == ("condition", 30)
    assert problem.message == "was accepted although event 21 matches its condition"


def asked(store: EventStore, conditions: dict[int, AppendCondition]) -> list[int]:
    """The suspects among appends of one event, which had these conditions."""
    appends = [
        RecordedAppend(append.first, append.last, conditions[append.first], "recorded", append.recorded_at)
        for append in store.appends()
        if append.first in conditions
    ]
    return [*suspects(store.engine, History(store.engine), appends, lambda _: None)]


def test_what_a_retag_gave_a_tag_is_there_and_what_it_took_one_from_is_not():
    """A part after 0 asks for what is there at that time."""
    with strandline.connect("memory:") as store:
        store.append(Event("A", {}))
        store.append(Event("A", {}))
        store.retag([1], add=["k:1"])
        store.append(Event("A", {}))
        store.retag([1], replace={"k": []})
        store.append(Event("A", {}))
        there = AppendCondition(Query.tag("k:1"))

        assert asked(store, {2: there, 4: there, 6: there}) == [4]


def test_an_item_is_followed_from_the_lowest_position_that_a_condition_knew():
    with strandline.connect("memory:") as store:
        for _ in range(60):
            store.append(Event("A", {}, tags=["k:1"] if store.head() == 9 else ()))

        assert asked(store, {50: AppendCondition(Query.tag("k:1"), 40)}) == []
        known = {50: AppendCondition(Query.tag("k:1"), 40), 55: AppendCondition(Query.tag("k:1"), 5)}
        assert asked(store, known) == [55]
