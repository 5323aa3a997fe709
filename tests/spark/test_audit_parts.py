"""Parts of the audit that need no JVM: what appends asked, what events carried, and the log's own match function."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import BinaryType, BooleanType, IntegerType, LongType, StringType, StructType

from places import Place
from strandline import AppendCondition, Event, Query, QueryItem
from strandline.engine.raw_append import RawAppend
from strandline.errors import CorruptLog
from strandline.spark.audit.carried import versions
from strandline.spark.audit.contention import label
from strandline.spark.audit.payload import asked, event
from strandline.spark.audit.questions import rows_of
from strandline.spark.audit.tables import SCHEMAS, TableReader
from strandline.spark.source.options import Options

TAGS = ("a", "b", "c")
KINDS = {
    "BIGINT": LongType(),
    "STRING": StringType(),
    "BINARY": BinaryType(),
    "INT": IntegerType(),
    "BOOLEAN": BooleanType(),
}


def recorded(condition: AppendCondition | None) -> RawAppend:
    text = None if condition is None else condition.to_json()
    return RawAppend(10, 12, 0, "unconditional" if condition is None else "recorded", text)


def test_an_append_has_a_question_for_each_item_of_each_part():
    condition = AppendCondition.all_of(
        AppendCondition(
            Query.tag("x") | Query.of(QueryItem(types=["A"], stream="s", where={"n": 1})), after=7
        ),
        AppendCondition(Query.all()),
    )
    rows = list(rows_of(recorded(condition)))

    assert [row[:7] for row in rows] == [(10, 12, 9, 0, "recorded", True, 2)] * 3
    assert [row[7:10] for row in rows] == [(0, 0, 7), (0, 1, 7), (1, 0, 0)]
    assert [label(row[10]) for row in rows] == [("x", "any type"), ("stream s", "A"), ("no tag", "any type")]
    assert [row[11] for row in rows] == [False, True, False]
    assert {row[12] for row in rows} == {condition.to_json()}


def test_an_append_without_a_condition_has_one_row_without_a_question():
    (row,) = rows_of(recorded(None))
    assert row == (10, 12, 9, 0, "unconditional", False, None, None, None, None, None, None, None)


def test_items_that_ask_for_the_same_have_the_same_key_and_others_have_not():
    items = [
        QueryItem(),
        QueryItem(where={"n": 1}),
        QueryItem(tags=["a"]),
        QueryItem(tags=["a"], where={"n": 1}),
        QueryItem(types=["a"]),
        QueryItem(exclude_types=["a"]),
        QueryItem(stream="a"),
        QueryItem(subject="a"),
        QueryItem(key="a"),
        QueryItem(tags=["a", "b"]),
    ]
    keys = [next(iter(rows_of(recorded(AppendCondition(Query.of(i))))))[10] for i in items]
    assert keys[2] == keys[3]  # a payload is looked at later
    assert len({*keys}) == len(keys) - 1


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"after":1}', '{"fail_if_events_match":{"items":[{"colour":1}]}}']
)
def test_what_is_no_condition_is_not_passed_over(text: str):
    with pytest.raises(CorruptLog, match="append 10"):
        list(rows_of(RawAppend(10, 10, 0, "recorded", text)))


@given(
    st.lists(st.tuples(st.sets(st.sampled_from(TAGS)), st.integers(1, 5)), min_size=1, max_size=6), st.data()
)
def test_tags_of_then_are_known_whenever_the_event_was_read(steps, data):
    """Retags that came after the event was read are undone, too, and that changes nothing."""
    history, at = [], 100  # the tags from a position on
    for tags, distance in steps:
        if not history or history[-1][1] != tags:
            history.append((at, tags))
        at += distance
    changes = [
        (since, sorted(old - new), sorted(new - old))
        for (_, old), (since, new) in itertools.pairwise(history)
    ]
    read_at = data.draw(st.integers(0, len(history) - 1))
    found = versions(100, sorted(history[read_at][1]), changes)

    for since, tags in history[: read_at + 1]:
        ((carried, *_),) = (
            each for each in found if each[1] <= since and (each[2] is None or since < each[2])
        )
        assert set(carried) == tags
    assert [each[1] for each in found] == [since for since, _ in reversed(history)]


def test_the_match_function_sees_stream_subject_key_and_payload_of_an_event():
    query = Query.of(
        QueryItem(stream="s", subject="x", key="k", tags=["a"], where={"n": 1, "$metadata": {"by": "me"}})
    )
    condition = AppendCondition.all_of(AppendCondition(Query.tag("zzz")), AppendCondition(query)).to_json()
    tags = ["a", "$stream:s", "$subject:x", "$key:k"]
    seen = event("A", tags, b'{"n":1}', b'{"$tracking":"17 orders","by":"me"}')
    assert seen.metadata == {"by": "me"}

    assert asked(condition, 1, 0).matches(seen)
    assert not asked(condition, 0, 0).matches(seen)
    assert not asked(condition, 1, 0).matches(event("A", tags[:-1], b'{"n":1}', b'{"by":"me"}'))
    assert not asked(condition, 1, 0).matches(event("A", tags, b"no JSON", None))


def test_the_tables_have_what_the_log_has(kept: Place):
    with kept.connect() as store:
        store.append(Event("A", b"\xff", tags=["b", "a"], stream="s", metadata={"by": "me"}).with_key("k"))
        store.append([Event("B", {}), Event("B", {})], AppendCondition(Query.tag("b"), after=1))
    options = Options.of({"url": str(kept.url), "until": "3"} | kept.options)

    def rows(name):
        schema = StructType()
        for column in SCHEMAS[name].split(", "):
            named, kind = column.split(" ")
            schema.add(named, KINDS[kind])
        reader = TableReader(options, schema)
        (part,) = reader.partitions()
        return [row for batch in reader.read(part) for row in batch.to_pylist()]

    assert rows("events")[0] == {
        "position": 1,
        "type": "A",
        "tags": "$key:k\na\nb",
        "stream": "s",
        "subject": None,
    }
    assert rows("payloads")[0] == {"position": 1, "data": b"\xff", "metadata": b'{"by":"me"}'}
    asked_by = [(row["first"], row["last"], row["status"], row["after"]) for row in rows("questions")]
    assert asked_by == [(1, 1, "unconditional", None), (2, 3, "recorded", 1)]
