"""Query plans, pinned: no look-up scans the log, however it is asked."""

from __future__ import annotations

import re
from array import array
from pathlib import Path

import apsw
import pytest

import strandline
from strandline import AppendCondition, Event, Query, QueryItem
from strandline.engine.sqlite.statements import sql

SEEKS = apsw.carray(array("q", [1 << 31 | 2, 3 << 31 | 4]))
SCANS_A_TABLE = re.compile(r"SCAN (event|posting|append|name|e|a|p|q)\b")

LOOK_UPS = {
    "append_holding": (5,),
    "appends_backward": (0, 100, 10),
    "appends_forward": (0, 100, 10),
    "events_appended": (0, 10),
    "events_at": (apsw.carray(array("q", [1, 2])),),
    "events_backward": (0, 100, 10),
    "events_forward": (0, 100, 10),
    "events_with_ids": (apsw.carray((b"x", b"y")),),
    "ids_in_log": (apsw.carray((b"x", b"y")),),
    "last_append": (2,),
    "recent_events": (0, 10),
    "name_by_id": (1,),
    "name_by_text": ("a",),
    "names_by_text": (apsw.carray((b"a", b"b")),),
    "position_by_ids": (apsw.carray((b"x", b"y")),),
    "postings_present": ("[[1, 2, 3]]",),
    "recorded_at": (5,),
    "scan_backward": (0, 100, "[]", 10),
    "scan_forward": (0, 100, "[]", 10),
    "seek_count": (1 << 31 | 2, 0, 100, 16),
    "seek_first": (SEEKS, 0, 100),
    "seeks_all_tags_backward": (SEEKS, 0, 100, 10, apsw.carray(array("q", [5]))),
    "seeks_all_tags_forward": (SEEKS, 0, 100, 10, apsw.carray(array("q", [5]))),
    "seeks_few": (SEEKS, 0, 100, 10),
    "seeks_backward": (SEEKS, 0, 100, 10),
    "seeks_forward": (SEEKS, 0, 100, 10),
    "shape_by_id": (1,),
    "shape_by_text": ("a",),
    "types_of_tag": (1,),
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with one hot tag, two common types and one rare event."""
    path = tmp_path_factory.mktemp("plans") / "events.db"
    with strandline.connect(path) as store:
        for start in range(0, 20_000, 10_000):
            numbers = range(start, start + 10_000)
            store.append([Event(f"Common{n % 2}", n, tags=["hot:1", f"tag:{n % 500}"]) for n in numbers])
        store.append(Event("Rare", 0, tags=["hot:1", "rare:1"], stream="rare"))
    return path


@pytest.mark.parametrize("name", LOOK_UPS)
def test_a_look_up_seeks_and_does_not_scan(path: Path, name: str) -> None:
    rows = apsw.Connection(str(path)).execute(f"explain query plan {sql(name)}", LOOK_UPS[name])
    assert [step for *_, step in rows if SCANS_A_TABLE.match(step)] == []


@pytest.mark.parametrize(
    "item",
    [
        QueryItem(types=["Rare"]),
        QueryItem(types=["Rare"], tags=["hot:1"]),
        QueryItem(tags=["hot:1", "rare:1"]),
        QueryItem(types=["Rare"], tags=["hot:1", "rare:1"]),
        QueryItem(stream="rare"),
    ],
    ids=["type", "type and hot tag", "hot and rare tag", "type, hot and rare tag", "stream"],
)
def test_the_work_of_a_check_follows_the_rarest_and_not_the_log(path: Path, item: QueryItem) -> None:
    """Counted in instructions of SQLite's virtual machine, so it is the same on every machine."""
    with strandline.connect(path) as store:
        assert instructions(store, Query.of(item)) < 3_000
        assert instructions(store, Query.types("Common0") & Query.tag("hot:1", "tag:7")) < 3_000


def test_a_check_touches_only_what_is_newer_than_after(path: Path) -> None:
    with strandline.connect(path) as store:
        every_tag = Query.of(QueryItem(exclude_types=["Common0", "Common1"]))
        assert instructions(store, every_tag, after=20_000) < 300
        assert instructions(store, Query.tag("hot:1", "tag:7"), after=20_000) < 600


def test_a_stale_condition_on_a_hot_tag_is_refused_without_reading_it_all(path: Path) -> None:
    with strandline.connect(path) as store:
        database = store.engine._connection.database  # type: ignore[attr-defined]
        query = Query.of(QueryItem(types=["Common0"], tags=["hot:1"]))
        store.exists(query)  # the first look reads the newest part of the index
        with Instructions(database) as counted, pytest.raises(strandline.AppendConditionFailed):
            store.append(Event("X", 0), AppendCondition(query, after=1))
        assert counted.number < 1_000


def instructions(store: strandline.EventStore, query: Query, after: int = 0) -> int:
    store.exists(Query.tag("nothing"))  # the first look reads the newest part of the index
    with Instructions(store.engine._connection.database) as counted:  # type: ignore[attr-defined]
        store.exists(query, after)
    return counted.number


class Instructions:
    """Counts the instructions of SQLite's virtual machine."""

    def __init__(self, database: apsw.Connection) -> None:
        self._database = database
        self.number = 0

    def __enter__(self) -> Instructions:
        self._database.set_progress_handler(self._count, 1)
        return self

    def __exit__(self, *_: object) -> None:
        self._database.set_progress_handler(None)

    def _count(self) -> bool:
        self.number += 1
        return False
