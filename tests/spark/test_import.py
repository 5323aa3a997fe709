"""Files become part of a log, on Spark: whole, in order, once."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import strandline.spark as sls
from places import Place
from strandline import Event, EventIdConflict, InvalidEvent, InvalidInput, Query, to_cloudevent
from strandline.errors import NotFound
from strandline.spark.frames import events

Import = Callable[..., sls.Imported]


@pytest.fixture
def import_into(spark: SparkSession) -> Import:
    return lambda place, source, *rest, **options: sls.import_events(
        spark, str(place.url), source, *rest, **place.options, **options
    )


@pytest.fixture
def file(tmp_path: Path) -> Place:
    return Place(tmp_path / "log.db")


@pytest.fixture
def small_splits(spark: SparkSession) -> Iterator[None]:
    """Files in splits of some lines, several of them in one task."""
    for name in ("maxPartitionBytes", "openCostInBytes"):
        spark.conf.set(f"spark.sql.files.{name}", "20000")
    yield
    for name in ("maxPartitionBytes", "openCostInBytes"):
        spark.conf.unset(f"spark.sql.files.{name}")


def some(count: int, first: int = 0) -> list[Event]:
    return [
        Event("Counted", {"n": n}, tags=[f"n:{n % 10}"], metadata={"user": "ada"})
        for n in range(first, first + count)
    ]


def as_lines(events: list[Event], path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    text = "".join(f"{event.to_json()}\n" for event in events)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def in_log(place: Place) -> list[Event]:
    with place.connect() as store:
        return [Event.from_json(line) for line in store.read().ndjson()]


@pytest.mark.usefixtures("small_splits")
def test_files_are_appended_in_the_order_of_their_names_and_lines(
    import_into: Import, kept: Place, tmp_path: Path
) -> None:
    whole = some(1_700)
    as_lines(whole[:800], tmp_path / "in/2026-01.ndjson")
    as_lines(whole[800:1_000], tmp_path / "in/2026-02.ndjson.gz")
    as_lines(whole[1_000:], tmp_path / "in/a 3.ndjson")
    done = import_into(kept, tmp_path / "in")

    assert in_log(kept) == whole
    assert (done.events, done.written, done.repeated, done.first, done.last) == (1_700, 1_700, 0, 1, 1_700)
    assert (done.head, done.skipped, done.format) == (1_700, 0, "json")
    again = import_into(kept, [str(tmp_path / "in/*.ndjson"), str(tmp_path / "in/*.gz")])
    assert (again.written, again.repeated, again.head) == (0, 1_700, 1_700)


def test_a_log_moves_from_one_store_to_another(import_into: Import, kept: Place, tmp_path: Path) -> None:
    other = Place(tmp_path / "other.db")
    with other.connect() as store:
        store.append([*some(20), Event("Raw", b"\xff\x00"), Event("Named", 1, stream="s", subject="x")])
        store.append(Event("Decided", {}).with_key("enroll:k1"), unless_exists=Query.types("Never"))
        store.retag([1, 2], add=["vip"])
        Path(tmp_path / "log.ndjson").write_bytes(b"".join(store.read().ndjson()))
        before = [
            (e.id, e.type, e.data, e.tags, e.key, e.stream, e.subject) for e in store.read(Query.user())
        ]
        times = [json.loads(line)["recorded_at"] for line in store.read(Query.user()).ndjson()]
    done = import_into(kept, tmp_path / "log.ndjson", original_time="recorded_at")

    with kept.connect() as store:
        after = [(e.id, e.type, e.data, e.tags, e.key, e.stream, e.subject) for e in store.read()]
        assert after == before
        assert [event.metadata["recorded_at"] for event in store.read()] == times
        assert store.exists(Query.tag("vip"))
    assert (done.written, done.skipped) == (23, 1)


def test_cloudevents_and_lists_of_files_in_any_order(
    import_into: Import, file: Place, tmp_path: Path
) -> None:
    foreign = [
        {"specversion": "1.0", "id": str(n), "source": "/shop", "type": "Paid", "data": {"n": n}}
        for n in range(3)
    ]
    (tmp_path / "b").write_text("\n".join(map(json.dumps, foreign[:2])))
    (tmp_path / "a").write_text(json.dumps(foreign[2]) + "\n" + json.dumps(to_cloudevent(some(1)[0])))
    done = import_into(file, [tmp_path / "b", tmp_path / "a"], "cloudevents")

    assert [event.json()["n"] for event in in_log(file)] == [0, 1, 2, 0]
    assert [event.metadata.get("id") for event in in_log(file)] == ["0", "1", "2", None]
    assert import_into(file, [tmp_path / "a", tmp_path / "b"], "cloudevents").repeated == done.events == 4


def test_rows_of_parquet_are_sorted_by_their_position(
    spark: SparkSession, import_into: Import, postgres: Place, tmp_path: Path
) -> None:
    source = Place(tmp_path / "source.db")
    with source.connect() as store:
        store.append(some(900))
        store.retag([7], add=["vip"])
    frame = events(spark, str(source.url)).orderBy(sf.rand(1))
    frame.repartition(4).withColumn("day", sf.lit("1")).write.partitionBy("day").parquet(
        str(tmp_path / "lake")
    )
    done = import_into(postgres, str(tmp_path / "lake"), "parquet")

    expected = in_log_of(source)
    assert in_log(postgres) == expected
    assert (done.written, done.skipped) == (900, 1)
    assert import_into(postgres, str(tmp_path / "lake"), "parquet").written == 0


def in_log_of(place: Place) -> list[Event]:
    with place.connect() as store:
        return [Event.from_json(line) for line in store.read(Query.user()).ndjson()]


def test_rows_without_ids_get_the_same_whenever_they_are_imported(
    spark: SparkSession, import_into: Import, file: Place, tmp_path: Path
) -> None:
    rows = [
        ("Counted", f'{{"n":{n}}}', n // 10) for n in range(100)
    ]  # ten rows of each hour: in the file's order
    frame = spark.createDataFrame(rows, "type STRING, data STRING, hour INT").coalesce(1)
    frame.write.parquet(str(tmp_path / "hours"))
    with pytest.raises(InvalidInput, match="nothing says by which column"):
        import_into(file, tmp_path / "hours", "parquet")
    done = import_into(file, tmp_path / "hours", "parquet", order_by="hour")
    again = import_into(file, tmp_path / "hours", "parquet", order_by="hour")

    assert [event.json()["n"] for event in in_log(file)] == list(range(100))
    assert (done.written, again.written, again.repeated) == (100, 0, 100)


def test_nothing_is_written_if_a_line_is_no_event(import_into: Import, file: Place, tmp_path: Path) -> None:
    path = as_lines(some(50), tmp_path / "good.ndjson")
    (tmp_path / "zbad.ndjson").write_text('\n{"type": "A", "data": 1}\n{"type": "A"}\noops\n')
    with pytest.raises(
        InvalidEvent, match=r"^2 of 54 are no events.*zbad\.ndjson line 3: .*zbad\.ndjson line 4: not"
    ):
        import_into(file, tmp_path / "*.ndjson")
    with file.connect() as store:
        assert store.head() == 0

    rival = Event("Rival", 0, id=some_id(path))
    as_lines([rival], tmp_path / "zbad.ndjson")
    with pytest.raises(EventIdConflict, match=f"same id, so nothing was written: {rival.id}"):
        import_into(file, tmp_path / "*.ndjson")
    with file.connect() as store:
        assert store.head() == 0


def some_id(path: Path) -> str:
    return json.loads(path.read_text().splitlines()[30])["id"]


def test_what_is_not_there_or_of_another_kind_is_said_in_a_line(import_into: Import, tmp_path: Path) -> None:
    place = Place(tmp_path / "log.db")
    path = as_lines(some(1), tmp_path / "events.ndjson")
    with pytest.raises(NotFound, match=r"there is no file at .*nothing\.ndjson"):
        import_into(place, tmp_path / "nothing.ndjson")
    with pytest.raises(InvalidInput, match="Spark cannot read"):
        import_into(place, path, "parquet")
    with pytest.raises(InvalidInput, match="no format 'xml'"):
        import_into(place, path, "xml")
    with pytest.raises(InvalidInput, match="nothing to import"):
        import_into(place, [])
    with pytest.raises(InvalidInput, match=r"Spark passes over .*_events\.ndjson"):
        import_into(place, as_lines(some(1), tmp_path / "_events.ndjson"))
    with pytest.raises(InvalidInput, match="lines have their order"):
        import_into(place, path, order_by="position")
    with pytest.raises(InvalidInput, match="a log in memory"):
        import_into(Place("memory:"), path)
    with pytest.raises(NotFound, match="nothing can be staged in"):
        import_into(place, path, staging=str(tmp_path / "no folder"))
    with pytest.raises(NotFound, match="there is no file at"):
        import_into(place, tmp_path / "no*.ndjson")
    assert not (tmp_path / "log.db").exists()


@pytest.mark.parametrize("name", ["e[1]", "{a}", "{a", "a\\b", "a*", "a?", "[a b"])
def test_a_file_may_have_any_name_though_to_spark_it_is_a_pattern(
    import_into: Import, tmp_path: Path, name: str
) -> None:
    lines = as_lines(some(2), tmp_path / name / f"{name}.ndjson")
    rows = tmp_path / name / f"{name}.parquet"
    pq.write_table(pa.table({"position": [1, 2], "type": ["A", "B"], "data": ["1", "2"]}), rows)
    for number, (path, format) in enumerate([(lines, "json"), (rows, "parquet")]):
        done = import_into(Place(tmp_path / f"{number}.db"), path, format)
        assert (done.written, done.source) == (2, str(path))


def test_an_empty_source_is_an_import_of_nothing(import_into: Import, tmp_path: Path) -> None:
    (tmp_path / "empty.ndjson").write_text("")
    done = import_into(Place(tmp_path / "log.db"), tmp_path / "empty.ndjson", staging=str(tmp_path))
    assert (done.events, done.written, done.head) == (0, 0, 0)
    assert not list(tmp_path.glob("strandline-*"))


def test_an_interrupted_import_goes_on_where_it_was(import_into: Import, kept: Place, tmp_path: Path) -> None:
    (tmp_path / "in.ndjson").write_text(
        "".join(f'{{"type": "Counted", "data": {n}}}\n' for n in range(2_500))
    )

    def interrupt(what: str, done: int, of: int) -> None:
        assert (what, done, of) == ("appending", 1_000, 2_500)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_into(kept, tmp_path / "in.ndjson", progress=interrupt)
    with kept.connect() as store:
        assert store.head() == 1_000
        store.append(Event("Live", 0))
    done = import_into(kept, tmp_path / "in.ndjson")

    assert (done.written, done.repeated, done.first, done.last) == (1_500, 1_000, 1_002, 2_501)
    assert [event.json() for event in in_log(kept) if event.type == "Counted"] == list(range(2_500))


def test_a_frame_is_written_back_in_the_order_of_a_column(
    spark: SparkSession, kept: Place, tmp_path: Path
) -> None:
    source = Place(tmp_path / "source.db")
    with source.connect() as store:
        store.append(some(500))
    frame = events(spark, str(source.url)).repartition(3).where("type = 'Counted'")
    writer = frame.write.format("strandline").options(url=str(kept.url), orderBy="position", **kept.options)
    for _ in range(2):  # rows have ids
        writer.mode("append").save()
    assert in_log(kept) == in_log_of(source)

    for mode, rows, why in (
        ("overwrite", frame, "a log only grows"),
        ("append", frame.withColumn("more", sf.lit(1)), "more is unknown"),
        ("append", frame.withColumn("data", sf.lit(None).cast("string")), "500 rows are no events"),
    ):
        writer = rows.write.format("strandline").options(
            url=str(kept.url), orderBy="position", **kept.options
        )
        with pytest.raises(Exception, match=why):
            writer.mode(mode).save()
    with kept.connect() as store:
        assert store.head() == 500


def test_a_worker_that_dies_while_it_stages_leaves_the_log_as_it_was(
    spark: SparkSession, file: Place, tmp_path: Path
) -> None:
    @sf.udf(returnType="string", useArrow=False)
    def deadly(n: int) -> str:
        if n == 37 and mark.exists():
            os._exit(1)
        return str(n)

    mark = tmp_path / "deadly"
    mark.touch()
    frame = spark.range(50, numPartitions=2).select(
        "id", sf.lit("Counted").alias("type"), deadly("id").alias("data")
    )
    frame = frame.withColumnRenamed("id", "n")
    writer = frame.write.format("strandline").options(url=str(file.url), orderBy="n", staging=str(tmp_path))
    with pytest.raises(Exception, match="exited unexpectedly"):
        writer.mode("append").save()
    assert in_log(file) == []
    mark.unlink()
    writer.mode("append").save()
    assert [event.json() for event in in_log(file)] == list(range(50))
