"""`check_log` and the oracle judge the same log alike."""

from __future__ import annotations

from pathlib import Path

import strandline
from racing import race
from strandline import AppendCondition, Event, Query
from strandline.engine.maintenance import check_log
from strandline.testing import violations


def test_check_finds_nothing_wrong_with_what_a_race_left(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    with strandline.connect(path) as store:
        race(store, 7, 200)
        assert violations(store) == []
    assert check_log(path).problems == []


def test_check_knows_that_unless_exists_asks_only_for_what_is_there(tmp_path: Path) -> None:
    """It is recorded as a part after 0; a retag before it took the only match away, so it was right."""
    path = tmp_path / "log.db"
    with strandline.connect(path) as store:
        store.append(Event("A", {}, tags=["k:1"]))
        store.retag([1], replace={"k": []})
        assert not store.append(Event("B", {}), unless_exists=Query.tag("k:1")).duplicate
        assert violations(store) == []
    assert check_log(path).problems == []


def test_check_and_oracle_both_accept_a_decision_that_knew_of_the_retag(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    with strandline.connect(path) as store:
        store.append(Event("A", {}, tags=["k:1"]))
        at = store.retag([1], replace={"k": ["2"]}).position
        store.append(Event("B", {}), AppendCondition(Query.tag("k:2"), after=at))
        assert violations(store) == []
    assert check_log(path).problems == []
