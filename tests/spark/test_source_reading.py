"""The reader gives exactly what the store reads; called directly, without a JVM."""

from __future__ import annotations

import sys
import traceback

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.types import BinaryType
from through_source import read, reader, row, rows, schema

from places import Place
from strandline import Event, EventStore, Query, QueryItem
from strandline.engine.scan import Types
from strandline.engine.sqlite import scan
from strandline.errors import InvalidEvent, InvalidInput, Unauthorized, Unavailable
from strandline.spark.source import copying
from strandline.spark.source.options import Options
from strandline.spark.source.ranges import Range, split
from strandline.testing.strategies import events as any_events
from strandline.testing.strategies import own_names, queries, query_items


def fill(store: EventStore, count: int) -> None:
    """A log with a bit of everything."""
    store.append(
        [
            Event(
                "Paid" if number % 3 else "Refunded",
                {"amount": number},
                tags=[f"wallet:w{number % 5}", "all:1"] if number % 7 else [],
                metadata={"trace": f"t{number}"} if number % 4 == 0 else None,
                stream=f"s{number % 2}" if number % 5 else None,
                subject="ä" if number % 6 == 0 else None,
            )
            for number in range(count)
        ]
    )
    store.append(Event("Keyed", {}, tags=["wallet:w1"]).with_key("once"))
    store.retag(Query.tag("wallet:w2"), add=["vip:1"])


QUERIES = {
    "everything": Query.all(),
    "what users wrote": Query.user(),
    "types": Query.types("Paid", "Keyed"),
    "a rare type": Query.types("$retagged"),
    "no such type": Query.types("Never"),
    "other types": Query.of(QueryItem(exclude_types=["Paid"])),
    "types or others": Query.of(QueryItem(types=["Paid"]), QueryItem(exclude_types=["Refunded", "Paid"])),
    "a tag": Query.tag("wallet:w1"),
    "a tag by a retag": Query.tag("vip:1"),
    "a key": Query.of(QueryItem(key="once")),
    "a stream": Query.stream("s1"),
    "a subject": Query.subject("ä"),
    "a payload": Query.of(QueryItem(types=["Paid"], where={"amount": {"$gte": 20}})),
    "metadata": Query.of(QueryItem(where={"$metadata": {"trace": "t8"}})),
}


def test_a_read_gives_what_the_store_reads(kept: Place):
    with kept.connect() as store:
        fill(store, 100)
        for query in QUERIES.values():
            expected = [row(event) for event in store.read(query)]
            some = [row(event) for event in store.read(query, after=10, until=90)]

            assert read(kept, query=query.to_json()) == expected, query
            assert read(kept, query=query.to_json(), after=10, until=90, partitions=3) == some, query


@pytest.mark.parametrize("query", [Query.all(), Query.types("Paid"), QUERIES["types or others"]], ids=str)
def test_scan_and_search_and_psycopg_agree(kept: Place, query: Query, monkeypatch: pytest.MonkeyPatch):
    with kept.connect() as store:
        fill(store, 100)
        expected = [row(event) for event in store.read(query)]
        log, head = str(store.stats().log), store.head()
    made = reader(kept, query=query.to_json())
    scanned, searched = (Range(log, 0, head, scan=scan) for scan in (True, False))

    assert rows(made, [scanned]) == expected
    assert rows(made, [searched]) == expected
    monkeypatch.setitem(sys.modules, "adbc_driver_postgresql", None)
    assert rows(made, [scanned]) == expected


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    event=any_events(
        types=st.sampled_from(["{until}", "it's", 'back\\slash"', "'; drop table event; --", "A"])
        | own_names(8),
        data=st.text(st.characters(exclude_categories=["Cs"]), max_size=20).map(str.encode),
    ),
    query=queries(query_items(types=st.sampled_from(["{until}", "it's", 'back\\slash"', "{", "A"]))),
)
def test_any_event_comes_back_under_any_query(kept: Place, event: Event, query: Query):
    with kept.connect() as store:
        store.append(event)
        expected = [row(event) for event in store.read(query)]

    assert read(kept, query=query.to_json()) == expected
    assert read(kept)[-1]["id"] == str(event.id)


@settings(max_examples=200)
@given(queries(query_items(types=st.sampled_from("ABCD"))), st.sampled_from([*"ABCDE", "$retagged"]))
def test_a_scan_decides_by_type_only_what_the_type_decides(query: Query, type: str):
    event = Event.of_store(type, {}) if type.startswith("$") else Event(type, {})
    types = Types.of(query)
    if types is None:
        assert any(item.index_tags() or item.where for item in query.items)
    else:
        others = types.excluded is not None and type not in types.excluded and not type.startswith("$")
        assert query.matches(event) == (types.every or type in types.listed or others)


@pytest.mark.parametrize(
    "names",
    [
        ("position",),
        ("type", "position"),
        ("tags",),
        ("data",),
        ("id", "metadata"),
        ("recorded_at", "stream"),
    ],
    ids=str,
)
def test_only_the_columns_that_are_asked_for_come(kept: Place, names: tuple[str, ...]):
    with kept.connect() as store:
        fill(store, 20)
        expected = [row(event) for event in store.read()]
    wanted = schema(*names)

    assert read(kept, wanted) == [{name: event[name] for name in names} for event in expected]


def test_data_comes_as_bytes_on_request_and_nothing_that_is_no_text_comes_as_text(kept: Place):
    with kept.connect() as store:
        store.append([Event("Text", b"no JSON"), Event("Bytes", b"\xff\x00"), Event("Empty", b"")])
    as_bytes = schema("position", "data", data=BinaryType())

    assert [r["data"] for r in read(kept, as_bytes)] == [b"no JSON", b"\xff\x00", b""]
    assert [r["data"] for r in read(kept, until=1)] == ["no JSON"]
    with pytest.raises(InvalidEvent, match="the data of event 2 is not UTF-8") as caught:
        read(kept)
    assert "data BINARY" in caught.value.hint


def test_large_events_come_in_batches_that_fit_into_memory(kept: Place, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scan, "BYTES", 1 << 20)
    with kept.connect() as store:
        for _ in range(40):
            store.append([Event("Large", b"x" * (1 << 19)) for _ in range(2)])
    made = reader(kept, schema("data"))
    batches = [batch for part in made.partitions() for batch in made.read(part)]

    assert sum(batch.num_rows for batch in batches) == 80
    assert max(batch.nbytes for batch in batches) < 40 << 20

    (part,) = made.partitions()
    unfinished = made.read(part)
    assert next(unfinished).num_rows < 80
    unfinished.close()  # as when Spark has enough


def test_a_log_without_events_has_no_partitions(kept: Place):
    kept.connect().close()

    assert reader(kept).partitions() == []
    assert read(kept) == []
    assert read(kept, after=5, until=3) == []


def test_equal_ranges_are_planned_and_the_head_is_fixed_then(kept: Place):
    with kept.connect() as store:
        fill(store, 98)
        made = reader(kept, partitions=4)
        planned = made.partitions()
        fill(store, 50)

    assert [(part.after, part.until) for part in planned] == [(0, 25), (25, 50), (50, 75), (75, 100)]
    assert len(rows(made, planned)) == 100
    assert rows(made, planned) == rows(made, planned)


@given(st.integers(0, 10**9), st.integers(0, 2 * 10**9), st.none() | st.integers(1, 500))
def test_the_ranges_are_balanced_and_cover_every_position_once(after: int, size: int, count: int | None):
    parts = split("log", (after, after + size), count, scan=True)

    assert [part.after for part in parts[1:]] == [part.until for part in parts[:-1]]
    assert not parts or (parts[0].after, parts[-1].until) == (after, after + size)
    sizes = [part.until - part.after for part in parts]
    assert not sizes or max(sizes) - min(sizes) <= 1
    assert sum(sizes) == size


def test_an_executor_that_reads_another_log_or_less_of_it_stops(kept: Place):
    with kept.connect() as store:
        fill(store, 10)
        log = str(store.stats().log)
    made = reader(kept)
    for is_scan in (True, False):
        with pytest.raises(InvalidInput, match="this executor reads the log"):
            rows(made, [Range("another", 0, 5, scan=is_scan)])
        with pytest.raises(Unavailable, match="the log ends at position 12 for this executor"):
            rows(made, [Range(log, 0, 13, scan=is_scan)])


def test_an_executor_that_cannot_connect_says_why(postgres: Place):
    with postgres.connect() as store:
        fill(store, 10)
        log = str(store.stats().log)
    stranger = Place(str(postgres.url).replace("postgres@", "stranger:s3cr3t@"), postgres.log)

    with pytest.raises(Unauthorized, match="lets nobody in") as caught:
        rows(reader(stranger), [Range(log, 0, 5, scan=True)])
    assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))


def test_a_server_that_breaks_off_is_told_in_one_line(postgres: Place):
    with postgres.connect() as store:
        fill(store, 10)
    copied = copying.connect(Options(url=str(postgres.url), log=str(postgres.log)))
    assert copied is not None
    with copied, pytest.raises(Unavailable, match=r"broke off: .*relation .* does not exist") as caught:
        list(copied._batches("select 1 from nowhere"))
    assert "\n" not in caught.value.message
