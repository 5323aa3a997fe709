"""A stream's offsets: what they promise, and when it must stop; called directly, without a JVM."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from through_source import row, rows, schema, source

from places import Place
from strandline import Event, Query
from strandline.errors import InvalidInput
from strandline.spark.source.stream import StreamReader

ALL = ReadAllAvailable()


@contextmanager
def stream(place: Place, **options: Any) -> Iterator[StreamReader]:
    """A stream on a log."""
    made = source(place, **options).streamReader(schema())
    try:
        yield made
    finally:
        made.stop()


def append(place: Place, count: int, *tags: str) -> None:
    with place.connect() as store:
        store.append([Event("Paid", {"n": number}, tags=tags) for number in range(count)])


def through_json(offset: dict[str, Any]) -> dict[str, Any]:
    """As Spark's checkpoint keeps it."""
    return json.loads(json.dumps(offset))


def test_each_event_is_delivered_once_and_a_range_stays_the_same_when_read_again(kept: Place):
    append(kept, 10)
    with stream(kept) as reading:
        start = reading.initialOffset()
        middle = reading.latestOffset(start, ALL)
        append(kept, 5)
        end = reading.latestOffset(middle, ALL)
        first, again, second = (
            rows(reading, reading.partitions(a, b))
            for a, b in ((start, middle), (start, middle), (middle, end))
        )
    with kept.connect() as store:
        assert first + second == [row(event) for event in store.read()]
    assert first == again


def test_an_offset_names_the_log_the_position_and_the_event_there(kept: Place):
    append(kept, 3)
    with stream(kept) as reading, kept.connect() as store:
        start = reading.initialOffset()
        end = reading.latestOffset(start, ALL)

        assert (start["position"], start["fingerprint"]) == (0, "")
        assert (end["log"], end["position"]) == (str(store.stats().log), 3)
        assert len(end["fingerprint"]) == 32
        assert reading.reportLatestOffset()["position"] == 3


def test_nothing_new_is_the_same_offset(kept: Place):
    append(kept, 3)
    with stream(kept) as reading:
        end = reading.latestOffset(reading.initialOffset(), ALL)

        assert reading.latestOffset(through_json(end), ALL) == end
        assert reading.partitions(end, end) == []


def test_a_limit_is_kept_exactly(kept: Place):
    append(kept, 10)
    with stream(kept, maxEventsPerTrigger=4) as reading:
        assert reading.getDefaultReadLimit() == ReadMaxRows(4)
        offsets = [reading.initialOffset()]
        for _ in range(4):
            offsets.append(reading.latestOffset(offsets[-1], reading.getDefaultReadLimit()))

        assert [offset["position"] for offset in offsets] == [0, 4, 8, 10, 10]
        assert reading.latestOffset(offsets[0], ALL)["position"] == 10
    with stream(kept) as unlimited:
        assert unlimited.getDefaultReadLimit() == ALL


def test_available_now_ends_at_the_head_of_its_beginning(kept: Place):
    append(kept, 4)
    with stream(kept) as reading:
        start = reading.initialOffset()
        reading.prepareForTriggerAvailableNow()
        append(kept, 4)
        end = reading.latestOffset(start, ALL)

        assert end["position"] == 4
        assert reading.latestOffset(end, ALL) == end


@pytest.mark.parametrize(("given", "delivered"), [(1, 5), (4, 2), (6, 0), ("latest", 0)])
def test_a_stream_begins_where_it_is_told(kept: Place, given: int | str, delivered: int):
    append(kept, 5)
    with stream(kept, startingPosition=given) as reading:
        start = reading.initialOffset()
        append(kept, 2)
        end = reading.latestOffset(start, ALL)
        found = [event["position"] for event in rows(reading, reading.partitions(start, end))]

    assert found == [*range(6 - delivered, 8)]


def test_a_stream_cannot_begin_beyond_the_log(kept: Place):
    append(kept, 5)
    with stream(kept, startingPosition=7) as reading, pytest.raises(InvalidInput, match="it ends at 5"):
        reading.initialOffset()


def test_another_log_stops_the_stream(kept: Place):
    append(kept, 5)
    with stream(kept) as reading:
        start = reading.initialOffset()
        end = through_json(reading.latestOffset(start, ALL))
    other = kept.another()
    append(other, 5)
    with stream(other) as reading:
        for call in (lambda: reading.latestOffset(end, ALL), lambda: reading.partitions(start, end)):
            with pytest.raises(InvalidInput, match=f"was reached in the log {end['log']}") as caught:
                call()
            assert "another checkpoint location" in caught.value.hint


@pytest.mark.parametrize(
    ("added", "said"),
    [
        (0, "the log ends at 5 now"),
        (5, "not the one that was there before"),
        (20, "not the one that was there"),
    ],
)
def test_a_restored_backup_stops_the_stream(tmp_path: Path, added: int, said: str):
    """Also when the log has grown past the offset again: then only the fingerprint tells."""
    live, backup = Place(tmp_path / "live.db"), tmp_path / "backup.db"
    append(live, 5)
    shutil.copy(live.url, backup)
    append(live, 5)
    with stream(live) as reading:
        start = reading.initialOffset()
        end = through_json(reading.latestOffset(start, ALL))
    shutil.copy(backup, live.url)
    if added:
        append(live, added)

    with stream(live) as reading:
        for call in (lambda: reading.latestOffset(end, ALL), lambda: reading.partitions(start, end)):
            with pytest.raises(InvalidInput, match=said):
                call()


def test_a_retag_of_delivered_events_stops_the_stream(kept: Place):
    append(kept, 3, "wallet:w1")
    append(kept, 1, "wallet:w2")
    query = Query.tag("wallet:w1").to_json()
    with stream(kept, query=query) as reading, kept.connect() as store:
        start = reading.initialOffset()
        end = through_json(reading.latestOffset(start, ALL))
        store.retag([4], add=["vip:1"])  # an event that the query does not match
        onward = reading.latestOffset(end, ALL)
        store.retag([2], add=["vip:1"])

        assert onward["position"] == 5
        for call in (lambda: reading.latestOffset(onward, ALL), lambda: reading.partitions(start, end)):
            with pytest.raises(InvalidInput, match="the retag at position 6 changed") as caught:
                call()
        assert "startingPosition 5" in caught.value.hint


def test_a_retag_of_what_is_still_to_come_or_was_seen_already_disturbs_nobody(kept: Place):
    append(kept, 6, "wallet:w1")
    query = Query.tag("wallet:w1").to_json()
    with kept.connect() as store:
        store.retag([1, 6], replace={"wallet": ["w2"]})  # before the stream begins
    with stream(kept, query=query, maxEventsPerTrigger=2) as reading, kept.connect() as store:
        offsets = [reading.initialOffset()]
        offsets.append(reading.latestOffset(offsets[-1], reading.getDefaultReadLimit()))
        store.retag([3], replace={"wallet": ["w2"]})  # not delivered yet
        while offsets[-1]["position"] < 8:
            offsets.append(reading.latestOffset(offsets[-1], reading.getDefaultReadLimit()))
        found = [
            event["position"]
            for start, end in pairwise(offsets)
            for event in rows(reading, reading.partitions(start, end))
        ]

    assert found == [2, 4, 5]


def test_a_stream_of_everything_tells_of_retags_and_goes_on(kept: Place):
    append(kept, 3, "wallet:w1")
    with stream(kept) as reading, kept.connect() as store:
        end = reading.latestOffset(reading.initialOffset(), ALL)
        store.retag([2], replace={"wallet": ["w2"]})
        onward = reading.latestOffset(end, ALL)

        assert [event["type"] for event in rows(reading, reading.partitions(end, onward))] == ["$retagged"]


def test_executors_get_a_reader_that_holds_no_connection(kept: Place):
    append(kept, 2)
    with stream(kept) as reading:
        copy = pickle.loads(pickle.dumps(reading))
        start = reading.initialOffset()
        planned = reading.partitions(start, reading.latestOffset(start, ALL))

        assert len(rows(copy, planned)) == 2
        reading.commit(start)
