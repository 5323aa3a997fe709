"""Reads: spans, directions, limits, heads and pages."""

from __future__ import annotations

import json
from uuid import UUID, uuid4

import pytest

from ... import Event, EventStore, Query, SequencedEvent
from ...errors import AppendConditionFailed
from .kit import happened, is_refused, item, positions

PAGES = 6_700  # the first page and more than three others


class Reading:
    """How a store is read."""

    @pytest.fixture
    def ten(self, store: EventStore) -> EventStore:
        """A store of ten events, every second tagged `even`."""
        store.append([happened("A", *(["even"] if n % 2 == 0 else []), n=n) for n in range(1, 11)])
        return store

    @pytest.fixture
    def large(self, store: EventStore) -> EventStore:
        """A store in which also a read of every second event has more than three pages."""
        events = [happened("AB"[n % 2], f"mod:{n % 2}", f"half:{n // PAGES}", n=n) for n in range(2 * PAGES)]
        store.append(events[:PAGES])
        store.append(events[PAGES:])
        return store

    def test_an_empty_store_reads_as_nothing(self, store: EventStore) -> None:
        read = store.read()
        assert (list(read), read.head, store.head(), store.count()) == ([], 0, 0, 0)
        assert not store.exists(Query.all())

    def test_events_come_in_the_order_of_their_positions(self, ten: EventStore) -> None:
        assert positions(ten.read()) == list(range(1, 11))
        assert positions(ten.read(backwards=True)) == list(range(10, 0, -1))

    @pytest.mark.parametrize("backwards", [False, True])
    @pytest.mark.parametrize(
        ("after", "until", "expected"),
        [
            (0, 3, [1, 2, 3]),
            (3, 6, [4, 5, 6]),
            (9, None, [10]),
            (10, None, []),
            (11, None, []),
            (10**18, None, []),
            (3, 3, []),
            (6, 3, []),
            (0, 0, []),
            (8, 99, [9, 10]),
        ],
    )
    def test_after_and_until_bound_both_directions_alike(
        self, ten: EventStore, after: int, until: int | None, expected: list[int], *, backwards: bool
    ) -> None:
        read = ten.read(after=after, until=until, backwards=backwards)
        assert positions(read) == (expected[::-1] if backwards else expected)
        even = ten.read(Query.tag("even"), after=after, until=until, backwards=backwards)
        wanted = [n for n in expected if n % 2 == 0]
        assert positions(even) == (wanted[::-1] if backwards else wanted)

    def test_limit_takes_from_the_side_where_the_read_begins(self, ten: EventStore) -> None:
        even = Query.tag("even")
        assert positions(ten.read(even, limit=2)) == [2, 4]
        assert positions(ten.read(even, limit=2, backwards=True)) == [10, 8]
        assert positions(ten.read(even, limit=2, after=4, backwards=True, until=9)) == [8, 6]
        assert positions(ten.read(even, limit=99)) == [2, 4, 6, 8, 10]

    def test_head_is_that_of_the_log_whatever_limit_and_query_did(self, ten: EventStore) -> None:
        assert ten.read(limit=1).head == 10
        assert ten.read(limit=1, backwards=True).head == 10
        assert ten.read(Query.tag("absent")).head == 10
        assert ten.read(after=10).head == 10
        assert ten.read(after=99).head == 10

    def test_head_with_until_is_the_smaller_of_the_two(self, ten: EventStore) -> None:
        assert ten.read(until=4).head == 4
        assert ten.read(until=4, backwards=True).head == 4
        assert ten.read(until=99).head == 10
        assert ten.read(until=0).head == 0

    def test_head_stays_as_captured(self, ten: EventStore) -> None:
        read = ten.read(Query.tag("even"))
        ten.append(happened("A", "even"))
        assert (read.head, positions(read)) == (10, [2, 4, 6, 8, 10])

    def test_the_condition_of_a_read_is_ready_to_append_with(self, ten: EventStore) -> None:
        read = ten.read(Query.tag("even"))
        assert read.condition.fail_if_events_match == Query.tag("even")
        assert read.condition.after == 10
        ten.append(happened("A", "odd"), read.condition)
        ten.append(happened("A", "even"), read.condition)
        with pytest.raises(AppendConditionFailed):
            ten.append(happened("A"), read.condition)

    def test_the_condition_of_a_read_until_guards_all_that_it_did_not_see(self, ten: EventStore) -> None:
        read = ten.read(Query.tag("even"), until=8)
        assert read.condition.after == 8
        with pytest.raises(AppendConditionFailed) as caught:
            ten.append(happened("A"), read.condition)
        assert caught.value.conflict.position == 10

    def test_a_read_may_be_iterated_again(self, ten: EventStore) -> None:
        read = ten.read(Query.tag("even"), limit=3)
        assert list(read) == list(read)
        first, second = iter(read), iter(read)
        assert [next(first).position, next(second).position, next(first).position] == [2, 2, 4]

    def test_a_read_half_done_may_be_dropped(self, large: EventStore) -> None:
        for _ in range(20):
            assert next(iter(large.read(Query.tag("mod:1")))).position == 2
        assert large.append(happened("A")).position == 2 * PAGES + 1

    def test_a_read_without_arguments_is_gapless(self, large: EventStore) -> None:
        assert positions(large.read()) == list(range(1, 2 * PAGES + 1))
        assert positions(large.read(backwards=True)) == list(range(2 * PAGES, 0, -1))

    @pytest.mark.parametrize(
        "query",
        [
            Query.tag("mod:1"),
            Query.types("B"),
            Query.of(item("mod:1", types=["B"]), item("absent")),
            Query.of(item("mod:1", "half:0"), item("mod:1", "half:1")),
            Query.of(item(where=lambda event: event.json()["n"] % 2 == 1)),
        ],
    )
    def test_pages_join_without_seam(self, large: EventStore, query: Query) -> None:
        if is_refused(large, query):
            return
        every_second = list(range(2, 2 * PAGES + 1, 2))
        assert positions(large.read(query)) == every_second
        assert positions(large.read(query, backwards=True)) == every_second[::-1]
        assert positions(large.read(query, limit=3_001)) == every_second[:3_001]
        assert positions(large.read(query, limit=3_001, backwards=True)) == every_second[::-1][:3_001]
        span = large.read(query, after=100, until=9_999)
        assert positions(span) == [n for n in every_second if 100 < n <= 9_999]
        assert large.count(query) == len(every_second)

    @pytest.mark.parametrize("backwards", [False, True])
    def test_later_pages_are_bounded_by_the_head_of_the_first(
        self, large: EventStore, *, backwards: bool
    ) -> None:
        read = large.read(Query.tag("mod:1"), backwards=backwards)
        events = iter(read)
        seen = [next(events).position]
        large.append([happened("B", "mod:1") for _ in range(10)])
        seen.extend(positions(events))
        assert sorted(seen) == list(range(2, 2 * PAGES + 1, 2))
        assert read.head == 2 * PAGES

    @pytest.mark.parametrize("is_retagged", [False, True])
    def test_an_event_that_several_items_match_counts_once_for_limits_and_pages(
        self, store: EventStore, *, is_retagged: bool
    ) -> None:
        store.append([happened("A", "x", "y", n=n) for n in range(1_300)])
        if is_retagged:  # an engine that indexes late has to have done it by then
            store.retag([1], add=["z"])
        query = Query.of(item("x"), item("y"), item(types=["A"]))
        expected = list(range(1, 1_301))
        assert positions(store.read(query)) == expected
        assert positions(store.read(query, backwards=True)) == expected[::-1]
        for limit in (1, 2, 3, 5, 499, 501, 1_299):
            assert positions(store.read(query, limit=limit)) == expected[:limit]
            assert positions(store.read(query, limit=limit, backwards=True)) == expected[::-1][:limit]
        assert store.count(query) == 1_300

    def test_everything_written_comes_back(self, store: EventStore) -> None:
        event = Event(
            "Moved",
            {"to": "é😀\u2028", "n": 1.5},
            tags=["z", "a", "z"],
            id=uuid4(),
            metadata={"user": "u1", "😀": "\n"},
            stream="s",
            subject="u",
        )
        store.append(event)
        (found,) = store.read()
        for name in ("type", "data", "tags", "id", "metadata", "stream", "subject"):
            assert getattr(found, name) == getattr(event, name)
        assert isinstance(found, SequencedEvent)
        assert isinstance(found.id, UUID)
        assert (found.tags, found.position, found.json()) == (("a", "z"), 1, {"to": "é😀\u2028", "n": 1.5})

    @pytest.mark.parametrize(
        "data",
        [b"", b"\x00\xff\r\n", b" [1] ", b'{"b":1,"a":2,"a":3}', b"1e1", b"\xef\xbb\xbf{}", "ü\x00".encode()],
    )
    def test_data_comes_back_byte_for_byte(self, store: EventStore, data: bytes) -> None:
        store.append(Event("A", data))
        assert [event.data for event in store.read()] == [data]

    def test_ids_may_be_given_as_text(self, store: EventStore) -> None:
        text = "0197F2B0-0000-7000-8000-0123456789ab"
        store.append(Event("A", {}, id=text))
        (event,) = store.read()
        assert event.id == UUID(text)
        assert store.append(Event("A", {}, id=UUID(text))).duplicate

    def test_ids_are_time_ordered_unless_given(self, store: EventStore) -> None:
        store.append([happened("A"), happened("A")])
        assert {event.id.version for event in store.read()} == {7}

    def test_ndjson_is_one_line_per_event_that_reads_back(self, store: EventStore) -> None:
        store.append([Event("A", {"t": "line\nbreak"}, tags=["x"], stream="s"), Event("B", b"\xff\n")])
        read = store.read()
        lines = list(read.ndjson())
        assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in lines)
        assert [SequencedEvent.from_json(line) for line in lines] == list(read)
        assert [event.to_json().encode() + b"\n" for event in read] == lines
        fields = json.loads(lines[0])
        assert (fields["position"], fields["type"], fields["data"]) == (1, "A", {"t": "line\nbreak"})
        assert list(fields) == sorted(fields)

    def test_a_sequenced_event_can_be_appended_elsewhere_by_its_json_form(self, store: EventStore) -> None:
        event = Event("A", {"n": 1}, tags=["x"], metadata={"by": "me"}, stream="s", subject="u")
        store.append(event)
        (line,) = store.read().ndjson()
        assert Event.from_json(line) == event
