"""Appends: atomic, numbered without gaps, in streams."""

from __future__ import annotations

import pytest

from ... import AppendResult, Event, EventStore, Query
from ...errors import EventIdConflict, InvalidInput, PayloadTooLarge
from .kit import OpenStore, happened, nothing_new, positions, refusal

MEBIBYTE = 1024 * 1024


class Appending:
    """What an append does."""

    def test_positions_are_1_2_3_without_gaps(self, store: EventStore) -> None:
        assert store.append(happened()) == AppendResult(1, 1, 1)
        assert store.append([happened(), happened()]) == AppendResult(2, 3, 2)
        refusal(store, nothing_new(Query.all()))
        assert store.append([happened()]) == AppendResult(4, 4, 1)
        assert positions(store.read()) == [1, 2, 3, 4]
        assert store.head() == store.count() == 4

    def test_the_position_of_a_result_is_its_last(self, store: EventStore) -> None:
        result = store.append([happened(), happened()])
        assert (result.first, result.last, result.position, result.count) == (1, 2, 2, 2)
        assert not result.duplicate

    def test_any_iterable_of_events_is_taken_in_order(self, store: EventStore) -> None:
        store.append(happened("A", n=n) for n in range(3))
        assert [event.json()["n"] for event in store.read()] == [0, 1, 2]

    def test_a_refused_append_of_several_events_writes_none(self, store: EventStore) -> None:
        taken = happened("A", "x")
        store.append(taken)
        with pytest.raises(EventIdConflict):
            store.append([happened("B", "new"), taken])
        assert (store.head(), store.exists(Query.tag("new")), store.exists(Query.types("B"))) == (
            1,
            False,
            False,
        )
        assert store.append(happened("C")).position == 2

    def test_an_append_may_have_10_000_events(self, store: EventStore) -> None:
        assert store.append([Event("A", b"") for _ in range(10_000)]) == AppendResult(1, 10_000, 10_000)
        assert store.head() == 10_000

    @pytest.mark.parametrize("count", [0, 10_001])
    def test_an_append_of_none_or_too_many_events_is_invalid(self, store: EventStore, count: int) -> None:
        with pytest.raises(InvalidInput) as caught:
            store.append([Event("A", b"") for _ in range(count)])
        assert caught.value.hint
        assert store.head() == 0

    def test_the_stream_of_an_append_is_that_of_its_events(self, store: EventStore) -> None:
        store.append([happened("A", "x"), Event("B", {}, stream="s")], stream="s")
        assert [event.stream for event in store.read()] == ["s", "s"]
        assert positions(store.read(Query.stream("s"))) == [1, 2]

    def test_two_different_streams_are_invalid(self, store: EventStore) -> None:
        with pytest.raises(InvalidInput, match="stream"):
            store.append(Event("A", {}, stream="s"), stream="t")
        assert store.head() == 0

    def test_streams_and_tags_are_one_log(self, store: EventStore) -> None:
        after = store.append(happened("A", "x"), stream="s").position
        store.append(happened("A", "x"), stream="t")
        refusal(store, nothing_new(Query.tag("x"), after))
        store.append(happened("A"), nothing_new(Query.stream("s"), after))

    def test_names_may_be_reserved_words_of_streams(self, store: EventStore) -> None:
        store.append(Event("A", {}, stream="$stream:s", subject="$subject:u"))
        assert store.exists(Query.stream("$stream:s"))
        assert not store.exists(Query.stream("s"))
        assert store.exists(Query.subject("$subject:u"))

    def test_data_up_to_the_limit_is_taken(self, store: EventStore) -> None:
        store.append(Event("A", b"x" * MEBIBYTE))
        (event,) = store.read()
        assert event.data == b"x" * MEBIBYTE

    def test_data_over_the_limit_is_too_large(self, store: EventStore) -> None:
        with pytest.raises(PayloadTooLarge) as caught:
            store.append([happened("A"), Event("A", b"x" * (MEBIBYTE + 1))])
        assert "max_data_bytes" in caught.value.hint
        assert store.head() == 0

    def test_the_limit_of_data_can_be_set(self, open_store: OpenStore) -> None:
        store = open_store(max_data_bytes=10)
        store.append(Event("A", b"x" * 10))
        with pytest.raises(PayloadTooLarge, match="11"):
            store.append(Event("A", b"x" * 11))
        assert store.head() == 1

    def test_an_append_has_at_most_64_mebibytes(self, store: EventStore) -> None:
        megabyte = b"x" * MEBIBYTE
        with pytest.raises(PayloadTooLarge, match="append"):
            store.append([Event("A", megabyte) for _ in range(65)])
        assert store.head() == 0

    def test_an_event_may_have_64_tags(self, store: EventStore) -> None:
        tags = [f"tag:{n:02}" for n in range(64)]
        store.append(Event("A", {}, tags=tags))
        (event,) = store.read(Query.tag(*tags))
        assert list(event.tags) == tags
