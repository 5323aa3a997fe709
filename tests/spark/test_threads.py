"""Jobs run in any thread, and several at once: Spark itself finds a session only in the thread that started it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from academy import Course, CourseDefined, CourseId, StudentId, StudentSubscribed
from pyspark.sql import SparkSession

import strandline
import strandline.spark as sls
from strandline import Query
from strandline.follow import ReadModel

STUDENTS = ("s1", "s2", "s3")


def new_log(folder: Path) -> str:
    """A log with one course and three students."""
    folder.mkdir()
    path = str(folder / "school.db")
    with strandline.connect(path) as store:
        store.append(CourseDefined(course=CourseId("c1"), capacity=3))
        for student in STUDENTS:
            store.append(StudentSubscribed(student=StudentId(student), course=CourseId("c1")))
    return path


def in_another_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run in a thread that is new, and so has no active session."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(function(*arguments))
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]


def exports(spark: SparkSession, log: str) -> None:
    lake = f"{log}-lake"
    assert sls.export(spark, log, lake, events="academy", projections=Course).events == 4
    assert sls.read_lake(spark, lake).count() == 4


def retags(spark: SparkSession, log: str) -> None:
    assert sls.retag(spark, log, "academy:more_tags").changed == 1
    with strandline.connect(log) as store:
        assert store.count(Query.tag("topic:physics")) == 1


def imports(spark: SparkSession, log: str) -> None:
    file = Path(f"{log}.ndjson")
    file.write_text("".join(json.dumps({"type": "Paid", "data": {"n": n}}) + "\n" for n in range(10)))
    assert sls.import_events(spark, log, str(file)).written == 10


def writes(spark: SparkSession, log: str) -> None:
    """What users do by themselves: the thread learns the session by `register`."""
    sls.register(spark)
    frame = spark.range(5).selectExpr("id as n", "'Paid' as type", "'{}' as data")
    frame.write.format("strandline").option("url", log).option("orderBy", "n").mode("append").save()
    with strandline.connect(log) as store:
        assert store.count(Query.types("Paid")) == 5


def writes_in_the_session_that_runs(spark: SparkSession, log: str) -> None:
    assert sls.session() is spark
    writes(spark, log)


def writes_a_fold(spark: SparkSession, log: str) -> None:
    states = sls.fold(spark, log, Course).selectExpr(
        "position as n", "'Counted' as type", "to_json(struct(*)) as data"
    )
    states.write.format("strandline").option("url", log).option("orderBy", "n").mode("append").save()
    with strandline.connect(log) as store:
        (counted,) = store.read(Query.types("Counted"))
    assert counted.json()["taken"] == 3


def folds(spark: SparkSession, log: str) -> None:
    (row,) = sls.fold(spark, log, Course).collect()
    assert (row.id, row.taken, row.position) == ("c1", 3, 4)


def folds_in_sql(spark: SparkSession, log: str) -> None:
    name = f"fold_{threading.get_ident()}"
    sls.register_fold(spark, name, Course)
    spark.read.format("strandline").option("url", log).load().createOrReplaceTempView(f"events_of_{name}")
    rows = spark.sql(
        f"select * from {name}(table(select * from events_of_{name}, lateral {name}_keys(type, tags))"
        " partition by key order by position)"
    ).collect()
    assert [row.taken for row in rows] == [3]


def rebuilds(spark: SparkSession, log: str) -> None:
    assert sls.rebuild(spark, log, Course, "courses").keys == 1


def rebuilds_by_the_read_model(spark: SparkSession, log: str) -> None:
    model = ReadModel(Course, table="courses")
    with strandline.connect(log) as store:
        model.rebuild(store, engine="spark")
        assert model.get("c1", store=store).taken == 3


def audits(spark: SparkSession, log: str) -> None:
    report = sls.audit(spark, log)
    assert (report.appends, report.ok) == (4, True)


def reports(spark: SparkSession, log: str) -> None:
    assert sls.report(spark, log, f"{log}.html").head == 4


def reads(spark: SparkSession, log: str) -> None:
    assert spark.read.format("strandline").option("url", log).load().count() == 4


JOBS = (
    *(exports, retags, imports, folds, folds_in_sql, rebuilds, rebuilds_by_the_read_model, audits, reports),
    *(reads, writes, writes_in_the_session_that_runs, writes_a_fold),
)


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.__name__)
def test_a_job_runs_in_a_thread_that_did_not_start_the_session(spark: SparkSession, tmp_path: Path, job: Any):
    in_another_thread(job, spark, new_log(tmp_path / "log"))


def test_jobs_on_many_logs_run_at_once(spark: SparkSession, tmp_path: Path):
    jobs = (exports, retags, imports, writes, folds, audits, rebuilds, exports)
    logs = [new_log(tmp_path / f"log{number}") for number in range(len(jobs))]
    with ThreadPoolExecutor(4) as pool:
        for running in [pool.submit(job, spark, log) for job, log in zip(jobs, logs, strict=True)]:
            running.result()


def test_jobs_run_beside_an_event_loop(spark: SparkSession, tmp_path: Path):
    async def run() -> None:
        logs = [new_log(tmp_path / name) for name in ("a", "b")]
        await asyncio.gather(*(asyncio.to_thread(exports, spark, log) for log in logs))

    asyncio.run(run())
