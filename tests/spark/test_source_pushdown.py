"""Filters that are pushed down make the read smaller, and the result no other."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)
from pyspark.testing import assertDataFrameEqual
from through_source import reader, row, rows

from places import Place
from strandline import Event, Query, QueryItem

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
TYPES = ("Paid", "Refunded", "Closed")
POSITION, TYPE, TIME = ("position",), ("type",), ("recorded_at",)


def filled(place: Place) -> Place:
    """60 events, two a minute, and a retag."""
    times = iter(range(1_000))
    with place.connect(clock=lambda: BEGIN + timedelta(minutes=next(times) // 2)) as store:
        for number in range(60):
            store.append(Event(TYPES[number % 3], {"n": number}, tags=[f"wallet:w{number % 4}"]))
        store.retag(Query.tag("wallet:w1"), add=["vip:1"])
    return place


@pytest.fixture
def log(kept: Place) -> Place:
    return filled(kept)


def holds(told: Filter, event: dict[str, Any]) -> bool:
    """What Spark says about a filter."""
    match told:
        case Not(child):
            return not holds(child, event)
        case IsNotNull():
            return True
        case In((name,), values):
            return event[name] in values
    (name,), value = told.attribute, told.value
    return {
        EqualTo: event[name] == value,
        EqualNullSafe: event[name] == value,
        GreaterThan: event[name] > value,
        GreaterThanOrEqual: event[name] >= value,
        LessThan: event[name] < value,
        LessThanOrEqual: event[name] <= value,
    }[type(told)]


NOON = BEGIN + timedelta(minutes=20)
FILTERS: list[list[Filter]] = [
    [GreaterThan(POSITION, 10), LessThanOrEqual(POSITION, 20)],
    [GreaterThanOrEqual(POSITION, 10), LessThan(POSITION, 20)],
    [EqualTo(POSITION, 7)],
    [EqualNullSafe(POSITION, 7), GreaterThan(POSITION, 7)],
    [LessThan(POSITION, -5)],
    [GreaterThan(POSITION, 10**12)],
    [EqualTo(TYPE, "Paid")],
    [EqualTo(TYPE, "$retagged")],
    [EqualTo(TYPE, "")],
    [In(TYPE, ("Paid", "Closed")), IsNotNull(TYPE)],
    [In(TYPE, ("Paid", "$retagged"))],
    [EqualTo(TYPE, "Paid"), EqualTo(TYPE, "Closed")],
    [Not(EqualTo(TYPE, "Paid"))],
    [Not(GreaterThan(POSITION, 3))],
    [GreaterThan(TIME, NOON)],
    [GreaterThanOrEqual(TIME, NOON), LessThan(TIME, NOON + timedelta(minutes=5))],
    [EqualTo(TIME, NOON)],
    [LessThanOrEqual(TIME, NOON), EqualTo(TYPE, "Closed"), GreaterThan(POSITION, 4)],
]
QUERIES = [
    Query.all(),
    Query.user(),
    Query.types("Paid", "Refunded"),
    Query.tag("wallet:w1"),
    Query.of(QueryItem(where={"n": {"$gte": 0}})),
    Query.of(QueryItem(where={"changes": {"$ne": None}})),
]


def test_whatever_is_pushed_down_the_result_is_what_the_filters_let_through(
    new_place: Callable[[str], Place],
):
    log = filled(new_place("sqlite"))
    with log.connect() as store:
        for query in QUERIES:
            events = [row(event) for event in store.read(query)]
            for filters in FILTERS:
                made = reader(log, query=query.to_json(), pushdown=True)
                rest = made.pushFilters(filters)
                found = [
                    event for event in rows(made, made.partitions()) if all(holds(f, event) for f in rest)
                ]

                assert found == [event for event in events if all(holds(f, event) for f in filters)], filters


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        ([GreaterThan(POSITION, 10), LessThanOrEqual(POSITION, 20)], 10),
        ([EqualTo(TYPE, "Paid")], 20),
        ([In(TYPE, ("Paid", "Closed"))], 40),
        ([EqualTo(TYPE, "Paid"), EqualTo(TYPE, "Closed")], 0),
        ([GreaterThan(POSITION, 10**12)], 0),
    ],
    ids=str,
)
def test_what_is_pushed_down_is_not_read(log: Place, filters: list[Filter], count: int):
    made = reader(log, pushdown=True)

    assert made.pushFilters(filters) == filters
    assert len(rows(made, made.partitions())) == count


def test_times_are_pushed_down(log: Place):
    made = reader(log, pushdown=True)
    made.pushFilters([GreaterThan(TIME, NOON)])
    found = rows(made, made.partitions())

    assert len(found) < 50
    assert min(event["recorded_at"] for event in found) > NOON


def test_spark_filters_alike_with_and_without_pushdown(spark, log: Place):
    where = (
        (F.col("position") > 5)
        & (F.col("recorded_at") <= F.lit(NOON))
        & F.col("type").isin("Paid", "Closed")
        & F.array_contains("tags", "wallet:w2")
    )
    switch = "spark.sql.python.filterPushdown.enabled"

    def frame(**options: Any) -> Any:
        loaded = (
            spark.read.format("strandline")
            .option("url", str(log.url))
            .options(**log.options, **options)
            .load()
        )
        return loaded.where(where).select("position", "type", "recorded_at", "tags")

    plain = frame().collect()
    was = spark.conf.get(switch)
    spark.conf.set(switch, "true")
    try:
        pushed = frame(pushdown=True)
        assertDataFrameEqual(pushed, plain)
        assert len(plain) == 6
    finally:
        spark.conf.set(switch, was)
