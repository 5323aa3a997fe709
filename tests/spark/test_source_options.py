"""Options and schemas that the source refuses, each in one line with the fix; without a JVM."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructField, StructType
from through_source import read, schema, source

from places import Place
from strandline import Event
from strandline.errors import InvalidInput, NotFound, Unauthorized
from strandline.spark.reach import is_local
from strandline.spark.source.data_source import StrandlineSource
from strandline.spark.source.options import Options


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "needs the option url or urlEnv, and not both"),
        ({"url": "x.db", "urlEnv": "X"}, "needs the option url or urlEnv, and not both"),
        ({"url": "x.db", "query": '{"items": 5}'}, "not the JSON form of a query"),
        ({"url": "x.db", "query": "Paid"}, "not the JSON form of a query"),
        ({"url": "x.db", "after": "-1"}, "the option after is a whole number from 0 on, not '-1'"),
        ({"url": "x.db", "until": "1.5"}, "the option until is a whole number"),
        ({"url": "x.db", "partitions": "0"}, "the option partitions is a whole number from 1 on"),
        ({"url": "x.db", "pushdown": "yes"}, "the option pushdown is true or false"),
        ({"url": "x.db", "afterwards": "1"}, "there is no option 'afterwards'"),
        (
            {"url": "x.db", "maxEventsPerTrigger": "5"},
            "there is no option 'maxeventspertrigger' for this read",
        ),
        ({"url": "memory:"}, "belongs to one process"),
        ({"url": "mysql://x"}, "a store is a file"),
        ({"url": "none/none.db"}, "the folder none does not exist"),
        ({"url": "none.db"}, "there is no store at none.db"),
        ({"urlEnv": "NOT_SET"}, "the environment variable NOT_SET is not set here"),
    ],
    ids=str,
)
def test_bad_options_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str], said: str
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((InvalidInput, NotFound), match=said) as caught:
        StrandlineSource(options).reader(schema()).partitions()

    assert caught.value.hint


@pytest.mark.parametrize("options", [{"after": "1"}, {"until": "1"}, {"pushdown": "true"}], ids=str)
def test_a_stream_has_other_options_than_a_read(options: dict[str, str]):
    with pytest.raises(InvalidInput, match="there is no option") as caught:
        StrandlineSource({"url": "x.db", **options}).streamReader(schema())

    assert "startingPosition" in caught.value.hint
    with pytest.raises(InvalidInput, match="the option startingPosition is a whole number from 1 on"):
        StrandlineSource({"url": "x.db", "startingPosition": "0"}).streamReader(schema())


def test_names_of_options_may_be_in_any_case_and_spark_may_add_its_own():
    options = Options.of({"URL": "x.db", "Partitions": "3", "path": "/", "serialization.format": "1"})

    assert (options.url, options.partitions) == ("x.db", 3)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ([StructField("amount", LongType())], "the source has no column 'amount'"),
        ([StructField("Position", LongType())], "the source has no column 'Position'"),
        ([StructField("position", IntegerType())], "the column position is BIGINT, not INT"),
        ([StructField("data", LongType())], "the column data is STRING or BINARY, not BIGINT"),
        ([StructField("tags", ArrayType(LongType()))], "not ARRAY<BIGINT>"),
        ([StructField("stream", StringType(), nullable=False)], "not every event has a stream"),
        ([StructField("type", StringType()), StructField("type", StringType())], "none twice"),
        ([], "one column at least"),
    ],
    ids=str,
)
def test_bad_schemas_are_refused(fields: list[StructField], said: str):
    for make in (StrandlineSource.reader, StrandlineSource.streamReader):
        with pytest.raises(InvalidInput, match=said) as caught:
            make(StrandlineSource({"url": "x.db"}), StructType(fields))
        assert caught.value.hint


def test_columns_may_be_declared_not_null(kept: Place):
    with kept.connect() as store:
        store.append(Event("Paid", {}, tags=["wallet:w1"]))
    strict = StructType(
        [
            StructField("position", LongType(), nullable=False),
            StructField("tags", ArrayType(StringType(), containsNull=False), nullable=False),
        ]
    )

    assert read(kept, strict) == [{"position": 1, "tags": ["wallet:w1"]}]


def test_the_url_may_come_from_the_environment_of_each_process(kept: Place, monkeypatch: pytest.MonkeyPatch):
    with kept.connect() as store:
        store.append(Event("Paid", {}))
    made = StrandlineSource({"urlEnv": "THE_LOG", **kept.options}).reader(schema())
    monkeypatch.setenv("THE_LOG", str(kept.url))
    (planned,) = made.partitions()
    elsewhere = pickle.loads(pickle.dumps(made))

    assert sum(batch.num_rows for batch in elsewhere.read(planned)) == 1


def test_no_password_is_in_what_is_shown_of_a_read(postgres: Place):
    url = str(postgres.url).replace("postgres@", "stranger:s3cr3t@")
    made = source(Place(url, postgres.log))
    with pytest.raises(Unauthorized, match="lets nobody in") as caught:
        made.reader(schema()).partitions()

    assert "s3cr3t" not in str(caught.value) + repr(Options.of(made.options)) + repr(
        Options.of(made.options).place
    )


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local", True),
        ("local[*]", True),
        ("local[2,3]", True),
        ("local-cluster[2,1,1024]", False),
        ("spark://host:7077", False),
        ("yarn", False),
        ("", False),
    ],
)
def test_one_process_is_no_cluster(master: str, expected: bool):
    assert is_local(master) == expected
