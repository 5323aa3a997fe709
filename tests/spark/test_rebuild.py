"""Rebuilt tables are the fold of the log, whoever writes or rebuilds meanwhile; most of it without a JVM."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lectures
import pytest
from lectures import Course, Fragile, Newest, Seat, define, expected, join, write_history
from without_spark import WithoutSpark, attempt, fill_only, rebuild_with, rebuild_without_spark, shuffled

import strandline
import strandline.spark as sls
from places import Place
from strandline import Event, EventStore, InvalidInput, NotFound, Projection, on
from strandline.errors import FollowerFailed, StrandlineError, Unavailable
from strandline.follow import ReadModel
from strandline.follow.models.listing import count_rows
from strandline.spark.loading import imported
from strandline.spark.rebuild.job import Job, Target
from strandline.spark.rebuild.parts import new_part, parts_of

LEASE = 0.5


def models_in(place: Place, *projections: Any) -> list[ReadModel[Any]]:
    """Read models with tables that no other log of the database uses."""
    prefix = f"{place.log}_" if place.is_in_database else ""
    return [ReadModel(cls, table=f"{prefix}{cls.__name__.lower()}", lease=LEASE) for cls in projections]


def judge(store: EventStore, *models: ReadModel[Any]) -> None:
    """Every table is the fold of the log, and nothing else is there."""
    for model in models:
        model.catch_up(store)
        made = model.pair(store).live
        rows = [made.table.columns.state_of(row) for row in store.engine.rows(made.table._select)]
        assert {state._key(): (state, position) for state, position in rows} == expected(
            store, model.projection
        )
        assert leftovers(store, model) == []


def leftovers(store: EventStore, model: ReadModel[Any]) -> list[Any]:
    if store.engine.name == "sqlite":
        left: list[Any] = list(Path(store.engine.url).parent.glob("*-incoming"))
        left += store.engine.rows("select name from sqlite_schema where name glob ? || '__*'", (model.table,))
    else:
        left = store.engine.rows(
            "select relname from pg_class where relkind = 'r' and starts_with(relname, %s)",
            (f"{model.table}__",),
        )
    return left + [row for row in store.engine.followers() if row.name == f"rebuild:{model.table}"]


@contextmanager
def writing(place: Place) -> Iterator[None]:
    """Somebody else writes and retags meanwhile."""
    is_over = threading.Event()

    def write() -> None:
        with place.connect() as store:
            number = 0
            while not is_over.wait(0.02):
                number += 1
                written = store.append(
                    [join(f"s{number % 5}", f"c{number % 6}", "hot"), define("hot", number)]
                )
                if number % 5 == 0:
                    store.retag(written.first, replace={"course": ["c1", f"moved{number % 3}"]})

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


# Without Spark


def test_several_tables_are_made_in_one_pass(kept: Place) -> None:
    with kept.connect() as store:
        write_history(store, 1)
        models = models_in(kept, Course, Seat, Newest)
        models[0].catch_up(store)
        store.append(join("s1", "c1"))
        folded = rebuild_without_spark(store, models)
        judge(store, *models)
        assert folded > store.head()  # an event goes to several keys
        store.append([join("s2", "c1"), define("c9")])
        judge(store, *models)
        assert rebuild_without_spark(store, models, partitions=5) > folded
        judge(store, *models)


def test_an_empty_log_and_one_without_such_events(kept: Place) -> None:
    with kept.connect() as store:
        models = models_in(kept, Course)
        assert rebuild_without_spark(store, models) == 0
        judge(store, *models)
        store.append(Event("Other", {}))
        assert rebuild_without_spark(store, models) == 0
        judge(store, *models)


def test_a_table_of_another_version_is_replaced(kept: Place) -> None:
    class Other(Projection):
        course: lectures.CourseId
        joins: int = 0

        @on
        def joined(self, event: lectures.Joined) -> None:
            self.joins += 1

    with kept.connect() as store:
        write_history(store, 2, 10)
        (model,) = models_in(kept, Course)
        ReadModel(Other, table=model.table).catch_up(store)
        with pytest.raises(FollowerFailed, match="another version"):
            model.catch_up(store)
        rebuild_without_spark(store, [model])
        judge(store, model)


def test_a_shadow_that_lacks_little_is_left_to_its_follower(kept: Place) -> None:
    with kept.connect() as store:
        write_history(store, 3)
        (model,) = models_in(kept, Course)

        assert fill_only(store, model) > 0
        store.append(join("s1", "c1"))
        assert rebuild_without_spark(store, [model]) == 0
        judge(store, model)
        assert fill_only(store, model) > 0
        write_history(store, 4, 30)
        assert rebuild_without_spark(store, [model]) > 0
        judge(store, model)


def test_attempts_that_failed_or_came_twice_count_once(kept: Place) -> None:
    with kept.connect() as store:
        write_history(store, 5)
        (model,) = models_in(kept, Course)

        class TriedAgain(WithoutSpark):
            def _folded(self, job: Job, head: int) -> list[Any]:
                first, second = shuffled(self._store, job.folds, until=head)
                lost = new_part(job, "lost")
                lost.write(0, [job.shadows[0].columns.row(Course("ghost"), 1)])
                lost.close()  # killed before it was whole
                attempt(job, first)  # whole, but nobody was told
                return [*attempt(job, first), *attempt(job, second)]

        rebuild_with(TriedAgain(store), store, [model])
        judge(store, model)


def test_two_at_once_do_not_spoil_each_other(kept: Place) -> None:
    with kept.connect() as store:
        write_history(store, 6, 30)
    models = models_in(kept, Course, Seat)
    said: list[str] = []

    def run() -> None:
        with kept.connect() as mine:
            try:
                rebuild_without_spark(mine, models)
            except FollowerFailed as error:
                said.append(str(error))

    with writing(kept):
        threads = [threading.Thread(target=run) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(said) < 3
    assert all("by somebody else meanwhile" in text for text in said)
    with kept.connect() as store:
        judge(store, *models)


def test_who_lost_its_lease_commits_nothing(kept: Place) -> None:
    with kept.connect() as store:
        write_history(store, 7, 10)
        models = models_in(kept, Course)

        class Frozen(WithoutSpark):
            def _folded(self, job: Job, head: int) -> list[Any]:
                told = super()._folded(job, head)
                with kept.connect() as other:
                    models[0].pair(other).shadow.follower.reset(0)  # somebody takes it for dead
                    assert fill_only(other, models[0]) > 0
                    other.append(join("s1", "c1"))
                return told

        rebuild_with(Frozen(store), store, models)
        judge(store, *models)


def test_what_cannot_be_folded_ends_it_and_leaves_the_old_table(kept: Place) -> None:
    with kept.connect() as store:
        store.append([join("s1", "c1"), join("s2", "c2")])
        (model,) = models_in(kept, Fragile)
        model.catch_up(store)
        store.append(join("breaker", "c1"))
        with pytest.raises(FollowerFailed, match=r"Fragile\('c1',\) could not take event 3.*it broke"):
            rebuild_without_spark(store, [model])
        assert [state.taken for state in model.find(order_by="course")] == [1, 1]
        pair = model.pair(store)
        assert leftovers(store, model)[:-1] == [(pair.shadow.table.name,)]  # empty, for the next one
        assert count_rows(store.engine, pair.shadow.table.name) == 0


def test_a_state_that_cannot_be_a_row_is_told_with_its_key(kept: Place) -> None:
    with kept.connect() as store:
        store.append(join("s1", "c1"))
        (model,) = models_in(kept, lectures.Unkept)
        with pytest.raises(
            FollowerFailed, match=r"Unkept\('c1'\) cannot be a row: .* does not come back from JSON"
        ):
            rebuild_without_spark(store, [model])


def test_rows_that_got_lost_on_their_way_are_noticed(kept: Place) -> None:
    with kept.connect() as store:
        write_history(store, 10, 5)
        (model,) = models_in(kept, Course)

        class Losing(WithoutSpark):
            def _folded(self, job: Job, head: int) -> list[Any]:
                told = super()._folded(job, head)
                told[0].keys += 1
                return told

        with pytest.raises(FollowerFailed, match="are there"):
            rebuild_with(Losing(store), store, [model])
        rebuild_without_spark(store, [model])
        judge(store, model)


def test_a_job_shows_no_password(kept: Place) -> None:
    job = Job(
        "postgresql://me:secret@localhost/db", "default", [Target(imported("lectures:Course"), "courses")]
    )
    assert "secret" not in repr(job)
    assert "secret" not in repr(parts_of(job))


@pytest.mark.parametrize(
    ("projection", "table", "said"),
    [
        ("lectures:Course", ["a", "b"], "1 projections"),
        (["lectures:Course", "lectures:Seat"], ["a", "a"], "2 projections"),
        ([], [], "0 projections"),
        ("lectures:Nothing", "a", "has no 'Nothing'"),
        ("lectures:Total", "a", "has no key"),
        ("lectures:Course", "A b", "cannot be the name of a table"),
    ],
)
def test_bad_input_is_told_before_anything_is_written(
    spark, tmp_path: Path, projection: Any, table: Any, said: str
) -> None:
    with pytest.raises(InvalidInput, match=said):
        sls.rebuild(spark, str(tmp_path / "log.db"), projection, table)
    assert list(tmp_path.iterdir()) == []


# On Spark


def test_rebuild_on_spark_while_others_write(spark, kept: Place) -> None:
    models = models_in(kept, Course, Seat, Newest)
    with kept.connect() as store:
        write_history(store, 8)
        models[0].catch_up(store)
        with writing(kept):
            rebuilt = sls.rebuild(
                spark,
                str(kept.url),
                ["lectures:Course", Seat, "lectures:Newest"],
                [model.table for model in models],
                **kept.options,
            )
        for model in models:
            model.catch_up(store)
        assert rebuilt.tables == tuple(model.table for model in models)
        assert rebuilt.events > 150
        assert 150 < rebuilt.head <= store.head()
        assert rebuilt.seconds > 0
        judge(store, *models)


def test_a_read_model_rebuilds_itself_on_spark(spark, new_place: Callable[[str], Place]) -> None:
    place = new_place("sqlite")
    with place.connect() as store:
        write_history(store, 9, 20)
        (model,) = models_in(place, Course)
        assert model.rebuild(store, engine="spark")
        judge(store, model)


def test_a_killed_worker_fails_the_job_and_the_next_call_goes_on(
    spark, postgres: Place, tmp_path: Path
) -> None:
    switch = tmp_path / "kill"
    (model,) = models_in(postgres, Fragile)
    with postgres.connect() as store:
        store.append([join(f"s{number}", f"c{number % 7}") for number in range(50)])
        store.append(join(f"killer {switch}", "c3"))
        switch.touch()
        with pytest.raises(Unavailable, match="Spark could not fold the log") as told:
            sls.rebuild(spark, str(postgres.url), Fragile, model.table, **postgres.options)
        assert "call it again" in told.value.hint
        rebuilt = sls.rebuild(spark, str(postgres.url), Fragile, model.table, **postgres.options)
        assert (rebuilt.keys, rebuilt.events) == (7, 51)
        judge(store, model)


def test_what_executors_say_is_said_by_the_driver(spark, tmp_path: Path) -> None:
    url = str(tmp_path / "log.db")
    with pytest.raises(NotFound):
        sls.rebuild(spark, url, Fragile, "fragile")
    with strandline.connect(url) as store:
        store.append(join("breaker", "c1"))
        with pytest.raises(FollowerFailed, match="it broke") as told:
            sls.rebuild(spark, url, Fragile, "fragile")
    assert isinstance(told.value, StrandlineError)
    assert "correct the handler" in told.value.hint
