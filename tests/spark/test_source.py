"""The source in Spark: rows, SQL, plans without secrets, errors that say what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import BinaryType
from through_source import row, schema

from places import Place
from strandline import Event, Query
from strandline.errors import InvalidInput, NotFound, StrandlineError, Unauthorized
from strandline.spark.frames import events


def reading(spark: Any, place: Place, **options: Any) -> Any:
    return spark.read.format("strandline").option("url", str(place.url)).options(**place.options, **options)


def fill(place: Place, count: int) -> list[Any]:
    with place.connect() as store:
        store.append(
            [
                Event(
                    "Paid",
                    {"amount": number},
                    tags=[f"wallet:w{number % 3}"] if number % 5 else [],
                    metadata={"by": "me"} if number % 2 else None,
                    stream="s" if number % 4 else None,
                )
                for number in range(count)
            ]
        )
        return list(store.read())


def test_the_source_gives_what_the_store_reads(spark, kept: Place):
    log = fill(kept, 25)
    frame = reading(spark, kept, partitions=3).load()
    found = sorted(frame.collect())

    assert frame.schema == schema()
    assert [r.asDict() for r in found] == [
        {**row(e), "metadata": dict(e.metadata), "recorded_at": e.recorded_at.replace(tzinfo=None)}
        for e in log
    ]
    assert frame.rdd.getNumPartitions() == 3


def test_a_schema_prunes_columns_and_may_ask_for_bytes(spark, kept: Place):
    log = fill(kept, 5)
    frame = reading(spark, kept).schema("data BINARY, position BIGINT").load()

    assert frame.schema == schema("data", "position", data=BinaryType())
    assert sorted((r.position, bytes(r.data)) for r in frame.collect()) == [(e.position, e.data) for e in log]


def test_an_empty_log_is_an_empty_frame(spark, kept: Place):
    kept.connect().close()

    assert reading(spark, kept).load().count() == 0


def test_a_query_decides_what_is_read(spark, kept: Place):
    fill(kept, 25)
    query = Query.tag("wallet:w1").to_json()

    assert {tuple(r.tags) for r in reading(spark, kept, query=query).load().collect()} == {("wallet:w1",)}


def test_sql_reads_a_log_too(spark, kept: Place):
    fill(kept, 5)
    options = ", ".join(f"{name} '{value}'" for name, value in {"url": kept.url, **kept.options}.items())
    spark.sql(f"create or replace temporary view log using strandline options ({options})")

    assert spark.sql("select count(*), max(position) from log").first() == (5, 5)
    spark.catalog.dropTempView("log")


def test_a_frame_stays_the_same_however_often_it_is_used(spark, kept: Place):
    fill(kept, 5)
    frame = events(spark, str(kept.url), **kept.options, columns=("position",))
    fill(kept, 5)

    assert (frame.count(), frame.count()) == (5, 5)
    assert events(spark, str(kept.url), **kept.options, after=2, until=4, binary=True).count() == 2


def test_no_password_is_in_plans_or_errors(spark, postgres: Place, capsys: pytest.CaptureFixture[str]):
    fill(postgres, 5)
    secret = "s3cr3t-and-long"
    place = Place(str(postgres.url).replace("postgres@", f"postgres:{secret}@"), postgres.log)
    assert secret in str(place.url)
    frame = events(spark, str(place.url), **place.options)
    frame.explain("extended")
    shown = capsys.readouterr().out + str(frame) + frame._jdf.queryExecution().toString()
    with pytest.raises(PySparkException) as caught:
        reading(spark, place, after="x").load()
    stranger = Place(str(place.url).replace("postgres:", "stranger:"), postgres.log)
    with pytest.raises(PySparkException) as refused:
        reading(spark, stranger).load().count()

    assert frame.count() == 5
    assert "strandline" in shown
    assert "the option after is a whole number" in str(caught.value)
    assert "lets nobody in" in str(refused.value)
    assert secret not in shown + str(caught.value) + str(refused.value)


@pytest.mark.parametrize(
    ("options", "said", "hint"),
    [
        ({"query": "{"}, "not the JSON form of a query", 'write {"items"'),
        ({"schema": "position BIGINT, amount INT"}, "the source has no column 'amount'", "its columns are"),
    ],
    ids=["query", "column"],
)
def test_what_spark_says_about_bad_input_has_our_words_in_it(
    spark, postgres: Place, options: dict[str, Any], said: str, hint: str
):
    given = {"url": postgres.url, **postgres.options, **options}
    wanted = given.pop("schema", "position BIGINT")
    with pytest.raises(PySparkException) as caught:
        spark.read.format("strandline").options(**given).schema(wanted).load().count()

    assert f"{said}" in str(caught.value)
    assert f"hint: {hint}" in str(caught.value)


@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        ({"url": "postgresql://nobody@{server}"}, Unauthorized, "lets nobody in"),
        ({"log": "nowhere"}, NotFound, "there is no log 'nowhere'"),
        ({"url": "{folder}/none.db", "log": "default"}, NotFound, "there is no store at"),
        ({"url": "memory:"}, InvalidInput, "belongs to one process"),
        ({"columns": ["position", "amount"]}, InvalidInput, "no column 'amount'"),
        ({"after": -1}, InvalidInput, "after is a position"),
        ({"until": "x"}, InvalidInput, "until is a position"),
    ],
    ids=str,
)
def test_jobs_hear_of_bad_input_in_the_driver(
    spark, postgres: Place, tmp_path: Path, given: dict[str, Any], kind: type[StrandlineError], said: str
):
    postgres.connect().close()
    arguments = {"url": str(postgres.url), **postgres.options, **given}
    server = str(postgres.url).partition("@")[2]
    url = arguments.pop("url").format(server=server, folder=tmp_path)
    with pytest.raises(kind, match=said) as caught:
        events(spark, url, **arguments)

    assert caught.value.hint
