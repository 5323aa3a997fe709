"""A rebuild that is killed at any point, and called again, ends with the fold and leaves nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from lectures import Course, Seat, expected, join, write_history
from test_rebuild import LEASE, judge, models_in
from without_spark import WithoutSpark, rebuild_with, rebuild_without_spark

import strandline.spark as sls
from places import Place
from strandline.follow import ReadModel
from strandline.follow.models import rebuilding
from strandline.follow.models.table import Table
from strandline.spark.rebuild import SparkBulk
from strandline.spark.rebuild.parts import FilePart, TablePart

KILLED = 9
POINTS = ["writing", "folded", "moved", "committed", "swapping"]


def die(*_: Any, **__: Any) -> Any:
    os._exit(KILLED)


def die_after(call: Any) -> Any:
    def called(*arguments: Any) -> None:
        call(*arguments)
        die()

    return called


def arm(point: str) -> None:
    """Let this process die there."""
    match point:
        case "writing":
            FilePart.write, TablePart.write = die_after(FilePart.write), die_after(TablePart.write)  # type: ignore
        case "folded":
            SparkBulk.finish = die  # type: ignore
        case "moved":
            SparkBulk.finish = die_after(SparkBulk.finish)  # type: ignore
        case "committed":
            rebuilding._take_over = die
        case "swapping":
            Table.rename = die_after(Table.rename)  # type: ignore


def child(url: str, options: str, point: str, how: str, *tables: str) -> None:
    """Rebuild, and die."""
    arm(point)
    place = Place(url, json.loads(options).get("log"))
    if how == "spark":
        spark = sls.session("local[2]", **{"spark.sql.shuffle.partitions": 2})
        sls.rebuild(spark, url, ["lectures:Course", "lectures:Seat"], tables, lease=LEASE, **place.options)
    else:
        with place.connect() as store:
            models = [
                ReadModel(cls, table=name, lease=LEASE)
                for cls, name in zip([Course, Seat], tables, strict=True)
            ]
            rebuild_with(WithoutSpark(store), store, models)


def killed(place: Place, models: list[ReadModel[Any]], point: str, how: str) -> subprocess.Popen[bytes]:
    tables = [model.table for model in models]
    return subprocess.Popen(
        [sys.executable, __file__, *place.arguments, point, how, *tables],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("point", POINTS)
def test_killed_and_called_again_the_tables_are_the_fold(kept: Place, point: str) -> None:
    models = models_in(kept, Course, Seat)
    with kept.connect() as store:
        write_history(store, 1, 20)
        models[0].catch_up(store)
        assert killed(kept, models, point, "process").wait() == KILLED
        assert {(state.course,): state for state in models[0].find()} == {
            key: state for key, (state, _) in expected(store, Course).items()
        }  # the old table serves
        store.append(join("s1", "c1"))
        folded = rebuild_without_spark(store, models)
        assert (folded > 0) == (point not in ("committed", "swapping"))
        judge(store, *models)


@pytest.mark.long
def test_a_killed_driver_of_spark_and_then_another(spark, postgres: Place) -> None:
    models = models_in(postgres, Course, Seat)
    tables = [model.table for model in models]
    with postgres.connect() as store:
        write_history(store, 2)
        assert killed(postgres, models, "moved", "spark").wait() == KILLED
        rebuilt = sls.rebuild(spark, str(postgres.url), [Course, Seat], tables, **postgres.options)
        assert rebuilt.events > store.head()
        judge(store, *models)


def test_a_driver_of_spark_that_ends_after_the_commit(
    spark, kept: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = models_in(kept, Course)
    arguments = spark, str(kept.url), Course, models[0].table

    def stop(*_: Any) -> Any:
        raise KeyboardInterrupt

    with kept.connect() as store:
        write_history(store, 3, 20)
        with monkeypatch.context() as armed:
            armed.setattr(rebuilding, "_take_over", stop)
            with pytest.raises(KeyboardInterrupt):
                sls.rebuild(*arguments, **kept.options)
        assert sls.rebuild(*arguments, **kept.options).events == 0
        judge(store, *models)


if __name__ == "__main__":
    child(*sys.argv[1:])
