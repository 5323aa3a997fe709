"""What the audit finds in a log that is right but for the lies that are planted in it, and what it counts."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

import strandline
import strandline.spark as sls
from places import Place
from planting import plant
from strandline import AppendCondition, AppendRequest, Event, EventStore, Query, QueryItem
from strandline.engine.raw_append import RawAppend
from strandline.errors import CorruptLog, NotFound
from strandline.spark.audit.asked import items
from strandline.spark.audit.questions import rows_of

HELD = AppendCondition(Query.tag("nobody"))


def append(store: EventStore, *tags: str, type: str = "Joined", **options) -> int:
    return store.append(Event(type, {"n": 1}, tags=tags, **options)).position


def item(**criteria) -> Query:
    return Query.of(QueryItem(**criteria))


def write_school(store: EventStore) -> dict[str, tuple[int, AppendCondition, int]]:
    """A log, and lies about it: the append, what it is said to have asked, and the position that contradicts it."""
    start = append(store, "course:1", "student:1", type="Defined")
    append(store, "course:1", stream="s1", subject="x")
    store.append(Event("Joined", {"n": 7}, tags=["course:2", "student:1"]).with_key("k1"))
    moved = append(store, "seat:1", "row:1")
    retag = store.retag([moved], replace={"seat": ["2"]}).position
    for number in range(60):
        query = Query.of(
            QueryItem(types=["Joined"], tags=[f"student:a{number}"]), QueryItem(tags=[f"seat:a{number}"])
        )
        event = Event("Joined", {"n": number}, tags=[f"student:a{number}", "course:9"])
        store.append(
            event, AppendCondition(query, after=store.head()), unless_exists=Query.tag(f"once:{number}")
        )
    first = iter(range(retag + 20, retag + 60))
    lies = {
        "one tag": (AppendCondition(item(tags=["course:1"]), start), start + 1),
        "several tags": (AppendCondition(item(tags=["course:2", "student:1"])), start + 2),
        "a type": (AppendCondition(item(types=["Joined"]), start), start + 1),
        "any type but one": (AppendCondition(item(exclude_types=["Defined"])), start + 1),
        "everything": (AppendCondition(Query.all(), moved), retag),
        "a stream": (AppendCondition(item(stream="s1")), start + 1),
        "a subject": (AppendCondition(item(subject="x")), start + 1),
        "a key": (AppendCondition(item(key="k1")), start + 2),
        "a payload": (AppendCondition(item(where={"n": 7})), start + 2),
        "tags of then": (AppendCondition(item(tags=["seat:2"])), moved),
        "a retag": (AppendCondition(item(tags=["seat:1"]), moved), retag),
        "a retag inside an item": (AppendCondition(item(tags=["row:1"]), moved), retag),
        "a retag from item to item": (
            AppendCondition(Query.tag("seat:1") | Query.tag("seat:2"), moved),
            retag,
        ),
        "a retag of a type": (AppendCondition(item(types=["Joined"], where={"n": 1}), moved), retag),
        "the second part": (
            AppendCondition.all_of(HELD, AppendCondition(item(tags=["student:1"]), start)),
            start + 2,
        ),
        "the second item": (AppendCondition(Query.tag("nobody") | Query.tag("student:1")), start),
    }
    return {kind: (next(first), *lie) for kind, lie in lies.items()}


def test_every_kind_of_lie_is_found_and_nothing_else(spark, kept: Place):
    with kept.connect() as store:
        lies = write_school(store)
        # Nothing is wrong with these, although they look like it with the tags of today.
        truths = {
            lies["a retag"][0] + 10: AppendCondition(item(tags=["seat:1"])),
            lies["a retag"][0] + 11: AppendCondition(item(tags=["seat:2"]), after=lies["a retag"][2]),
            lies["a retag"][0] + 12: AppendCondition(item(tags=["course:1"], where={"n": 2})),
        }
    plant(kept, {first: condition for first, condition, _ in lies.values()} | truths)
    report = sls.audit(spark, str(kept.url), **kept.options)
    found = {row.first: row for row in report.details.collect()}

    assert {first: row.position for first, row in found.items()} == {
        first: position for first, _, position in lies.values()
    }
    row = found[lies["several tags"][0]]
    assert (row.last, row.part, row.item, row.after) == (row.first, 0, 0, 0)
    assert (row.type, row.tags) == ("Joined", ["course:2", "student:1"])
    assert (found[lies["the second part"][0]].part, found[lies["the second item"][0]].item) == (1, 1)
    assert (found[lies["a retag"][0]].item, found[lies["a retag"][0]].type) == (0, "$retagged")
    assert found[lies["tags of then"][0]].tags == ["row:1", "seat:2"]
    assert (report.ok, report.violations, report.with_where) == (False, len(lies), 3)


def test_the_report_counts_appends_by_what_is_known_of_them(spark, tmp_path: Path):
    path = str(tmp_path / "log.db")
    with strandline.connect(path) as store:
        for number in range(5):
            append(store, f"seat:{number}")
        store.append(Event("Joined", {}), AppendCondition(item(where=lambda event: False)))
        store.append(Event("Joined", {}), AppendCondition(item(tags=["seat:9"], where={"n": 2}), after=3))
        store.append(Event("Left", {}), AppendCondition(item(types=["Left"], tags=["seat:1"]), after=2))
        with pytest.raises(strandline.AppendConditionFailed):
            store.append(Event("Left", {}), AppendCondition(Query.tag("seat:1")))
    with strandline.connect(path, record_conditions=False) as store:
        store.append(Event("Joined", {}), HELD)
    report = sls.audit(spark, path)

    assert report.ok
    assert report.details.collect() == []
    assert report.figures() | {"seconds": 0, "log": ""} == {
        "log": "",
        "head": 9,
        "appends": 9,
        "checked": 2,
        "violations": 0,
        "unconditional": 5,
        "not_recorded": 1,
        "not_auditable": 1,
        "with_where": 1,
        "refused": 1,
        "near_misses": 2,
        "longest_distance": 5,
        "seconds": 0,
    }
    assert [row.boundary for row in report.slowest] == ["seat:1 · Left", "seat:9 · any type"]
    assert [(row.appends, row.near_misses, row.longest) for row in report.slowest] == [(1, 1, 5), (1, 1, 3)]


def test_a_hot_tag_that_all_appends_guard_is_one_pass(spark, tmp_path: Path):
    path = str(tmp_path / "log.db")
    appends = 4_000
    with strandline.connect(path) as store:
        hot = Query.of(QueryItem(types=["Left"], tags=["course:1"]))
        requests = [
            AppendRequest(
                Event("Joined", {}, tags=["course:1", f"student:{number}"]),
                AppendCondition(hot | Query.tag("course:1", f"student:{number}"), after=number // 2),
            )
            for number in range(appends)
        ]
        assert all(result.count for result in store.append_many(requests))
    lie = AppendCondition(Query.tag("course:1"), after=appends - 3)
    plant(Place(path), {appends: lie})
    report = sls.audit(spark, path)

    assert [(row.first, row.position) for row in report.details.collect()] == [(appends, appends - 2)]
    assert report.checked == appends
    assert report.most_contended[0].boundary == "course:1 · Left"


def test_items_of_several_tags_are_looked_up_by_the_tag_that_few_items_share(spark):
    """Else a hundred thousand of them would each meet all events of the one hot tag that they have in common."""
    conditions = [AppendCondition(Query.tag("course:1", f"student:{n}"), after=n) for n in range(50)]
    conditions += [AppendCondition(Query.tag("course:1")), AppendCondition(Query.types("Joined"))]
    keys = [
        row[10]
        for condition in conditions
        for row in rows_of(RawAppend(60, 60, 0, "recorded", condition.to_json()))
    ]
    found = items(spark.createDataFrame([(key,) for key in keys], "key STRING")).collect()

    assert {row.key: row.anchor for row in found} == dict(
        zip(keys, [*(f"student:{n}" for n in range(50)), "course:1", None], strict=True)
    )


def test_an_empty_log_has_nothing_wrong(spark, kept: Place):
    kept.connect().close()
    report = sls.audit(spark, str(kept.url), **kept.options)
    assert (report.ok, report.head, report.appends, report.details.count()) == (True, 0, 0, 0)


def test_a_condition_that_cannot_be_read_is_an_error_and_not_left_out(spark, tmp_path: Path):
    path = str(tmp_path / "log.db")
    with strandline.connect(path) as store:
        append(store, "seat:1")
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        file.execute(
            """update event set shape = 3, arguments = '{"fail_if_events_match":{"tags":["seat:1"]}}'"""
        )
    with pytest.raises(CorruptLog, match="the condition of append 1 cannot be read"):
        sls.audit(spark, path)


def test_a_log_that_does_not_exist_is_not_made(spark, tmp_path: Path):
    with pytest.raises(NotFound):
        sls.audit(spark, str(tmp_path / "log.db"))
    assert list(tmp_path.iterdir()) == []
