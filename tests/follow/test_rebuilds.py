"""A read model is made anew while the old table serves."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from lessons import Course, define, join, other_version, running, table_in

from following import until
from newest import kept
from places import Place
from strandline import EventStore
from strandline.errors import FollowerFailed
from strandline.follow import ReadModel
from strandline.follow.models.rebuilding import prepare_shadow

place = kept  # a store in memory has no tables


def test_a_new_shape_asks_for_a_rebuild(place: Place, store: EventStore) -> None:
    old = ReadModel(Course, table=table_in(place))
    store.append([define("c1"), join("s1", "c1")])
    old.catch_up(store)
    with running(old, store) as outcome:
        new = ReadModel(other_version(), table=old.table)
        new.use(store)
        for call in (lambda: new.catch_up(store), lambda: new.get("c1"), lambda: new.wait_for(1), new.find):
            with pytest.raises(FollowerFailed, match="another version") as raised:
                call()
            assert "rebuild" in raised.value.hint
        assert old.get("c1") == store.project(Course, "c1")
        assert new.rebuild(store)
        assert new.get("c1") == store.project(new.projection, "c1")
        store.append(define("c1", 9))
        until(lambda: outcome, "the old version has ended")
    assert isinstance(outcome[0], FollowerFailed)
    assert new.catch_up(store) == 3
    assert new.find("waiting < 0") == [store.project(new.projection, "c1")]
    with pytest.raises(FollowerFailed, match="another version"):
        ReadModel(other_version(version=2), table=old.table).catch_up(store)


def test_a_rebuild_under_constant_writes_ends_equal_to_the_fold(place: Place, store: EventStore) -> None:
    model = ReadModel(Course, table=table_in(place))
    store.append([join(f"s{number}", f"c{number % 7}") for number in range(300)])
    is_over = threading.Event()

    def write() -> None:
        while not is_over.wait(0.001):
            written.append(number := len(written) + 1)
            store.append([join(f"w{number}", f"c{number % 9}"), define(f"c{number % 9}", number)])
            if number % 20 == 0:
                store.retag(number, replace={"course": [f"c{number % 5}"]})

    def read() -> None:
        while not is_over.is_set():
            served.append(len(model.find()))

    served: list[int] = []
    written: list[int] = []
    threads = [threading.Thread(target=write), threading.Thread(target=read)]
    with running(model, store) as outcome:
        model.wait_for(300)
        for thread in threads:
            thread.start()
        try:
            rebuilds = 0
            while (
                rebuilds < 3 or len(written) < 25
            ):  # a retag and every key among them, however slow the machine is
                assert model.rebuild(store, batch=50)
                rebuilds += 1
            assert served, "nobody could read meanwhile"
        finally:
            is_over.set()
            for thread in threads:
                thread.join()
        assert min(served) >= 7, "a table that was not whole has served"
        model.wait_for(store.head())
        assert not outcome
    keys = [f"c{number}" for number in range(9)]
    assert model.find(order_by="course") == [store.project(Course, key) for key in keys]
    assert [row.name for row in store.engine.followers()] == [f"model:{model.table}"]


def test_a_rebuild_goes_on_where_it_was(place: Place, store: EventStore) -> None:
    model = ReadModel(Course, table=table_in(place))
    store.append([join(f"s{number}", "c1") for number in range(30)])
    model.catch_up(store)
    shadow = model._in(store, is_shadow=True)
    tx = store.engine.transaction()
    tx.begin()
    prepare_shadow(model._used, shadow, tx)
    tx.commit()
    tx.end()
    model._take(shadow.run(10, 10), shadow)
    assert store.engine.followers(shadow.name)[0].position >= 10
    assert model.get("c1") == store.project(Course, "c1")
    assert model.rebuild(store)
    assert model.find() == [store.project(Course, "c1")]


def test_two_rebuilds_at_once(place: Place, store: EventStore) -> None:
    models = [ReadModel(Course, table=table_in(place)) for _ in range(3)]
    store.append([join(f"s{number}", f"c{number % 3}") for number in range(200)])
    with ThreadPoolExecutor(3) as threads:
        outcomes = [threads.submit(model.rebuild, store, 20) for model in models]
    failed = [outcome.exception() for outcome in outcomes if outcome.exception()]
    assert len(failed) < 3
    assert all(isinstance(error, FollowerFailed) for error in failed)
    expected = [store.project(Course, f"c{number}") for number in range(3)]
    assert models[0].find(order_by="course") == expected
    assert models[1].rebuild(store)
    assert models[1].find(order_by="course") == expected


def test_a_rebuild_of_another_version_begins_again(place: Place, store: EventStore) -> None:
    model = ReadModel(Course, table=table_in(place))
    store.append(define("c1"))
    tx = store.engine.transaction()
    tx.begin()
    prepare_shadow(model._in(store), model._in(store, is_shadow=True), tx)
    tx.commit()
    tx.end()
    new = ReadModel(other_version(), table=model.table)
    assert new.rebuild(store)
    assert new.find() == [store.project(new.projection, "c1")]
