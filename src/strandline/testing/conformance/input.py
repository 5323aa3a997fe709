"""Bad input gets a typed error before anything is written."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from ... import AppendCondition, AppendRequest, Event, EventStore, Query, QueryItem
from ...errors import InvalidEvent, InvalidInput, InvalidQuery
from ...names import MAX_KEY_BYTES
from .kit import happened

BAD_NAMES = ["", "x" * 257, "a\x00b", "a\nb", "\x7f", "\x85", "\ud800", 1, None, b"x", ["x"]]
BAD_EVENTS: list[dict[str, Any]] = [
    *({"type": name} for name in [*BAD_NAMES, "$x", "$retagged"]),
    *({"tags": [name]} for name in [*BAD_NAMES, "$x", "$stream:s"]),
    *({"stream": name} for name in BAD_NAMES if name is not None),
    *({"subject": name} for name in BAD_NAMES if name is not None),
    {"tags": "x"},
    {"tags": b"x"},
    {"tags": 7},
    {"tags": None},
    {"tags": [f"t:{n}" for n in range(65)]},
    {"id": "no uuid"},
    {"id": 7},
    {"id": b"x" * 16},
    {"metadata": {"n": 1}},
    {"metadata": {1: "n"}},
    {"metadata": {"n": None}},
    {"metadata": ["n"]},
    {"metadata": {"n": "\ud800"}},
    {"data": object()},
    {"data": {"n": float("nan")}},
    {"data": [float("inf")]},
    {"data": "\ud800"},
    {"data": {"n": {"m": object}}},
    {"data": {"n": b"x"}},
    {"data": {1: "n"}},
    {"data": {"at": datetime(2026, 12, 1)}},  # noqa: DTZ001
    {"tags": {"course": "c1"}},
]


class BadInput:
    """What a store refuses to take."""

    @pytest.mark.parametrize("fields", BAD_EVENTS)
    def test_an_event_that_breaks_the_rules_cannot_be_made(self, fields: dict[str, Any]) -> None:
        with pytest.raises(InvalidEvent) as caught:
            Event(**{"type": "A", "data": {}, **fields})
        assert isinstance(caught.value, ValueError)
        assert str(caught.value)

    @pytest.mark.parametrize(
        "events", ["A", b"A", {"type": "A"}, None, 7, [None], ["A"], [{"type": "A"}], [[]]]
    )
    def test_only_events_can_be_appended(self, store: EventStore, events: Any) -> None:
        with pytest.raises(InvalidInput) as caught:
            store.append(events)
        assert caught.value.hint
        assert store.head() == 0

    @pytest.mark.parametrize("condition", [Query.all(), {"after": 0}, 0, "x", (Query.all(), 0)])
    def test_only_conditions_are_conditions(self, store: EventStore, condition: Any) -> None:
        with pytest.raises(InvalidInput):
            store.append(happened(), condition)
        assert store.head() == 0

    @pytest.mark.parametrize("query", ["x", {"items": []}, QueryItem(), 7, [], AppendCondition(Query.all())])
    def test_only_queries_are_queries(self, store: EventStore, query: Any) -> None:
        asked: list[Callable[[], object]] = [
            lambda: store.read(query),
            lambda: store.count(query),
            lambda: store.exists(query),
            lambda: store.subscribe(query),
            lambda: store.append(happened(), unless_exists=query),
            lambda: AppendCondition(query),
            lambda: AppendRequest(happened(), unless_exists=query),
        ]
        for ask in asked:
            with pytest.raises(InvalidQuery):
                ask()
        assert store.head() == 0

    @pytest.mark.parametrize("limit", [0, -1, True, 1.5, "1"])
    def test_limits_are_whole_numbers_from_1(self, store: EventStore, limit: Any) -> None:
        with pytest.raises(InvalidInput):
            store.read(limit=limit)

    @pytest.mark.parametrize("position", [-1, True, 1.5, "1"])
    def test_positions_are_whole_numbers_from_0(self, store: EventStore, position: Any) -> None:
        asked: list[Callable[[], object]] = [
            lambda: store.read(after=position),
            lambda: store.read(until=position),
            lambda: store.exists(Query.all(), position),
            lambda: store.subscribe(after=position),
            lambda: store.appends(position),
        ]
        for ask in asked:
            with pytest.raises(InvalidInput):
                ask()

    @pytest.mark.parametrize("stream", ["", "x" * 257, "a\nb", 7, ["s"]])
    def test_the_stream_of_an_append_is_a_name(self, store: EventStore, stream: Any) -> None:
        with pytest.raises(InvalidInput):
            store.append(happened(), stream=stream)
        assert store.head() == 0

    def test_huge_positions_are_just_beyond_the_log(self, store: EventStore) -> None:
        store.append(happened())
        for huge in (2**31, 2**63 - 1, 2**63, 2**64, 10**30):
            assert list(store.read(after=huge)) == []
            assert len(list(store.read(until=huge))) == 1
            assert not store.exists(Query.all(), huge)
            assert list(store.appends(huge)) == []
            with pytest.raises(InvalidInput):
                store.append(happened(), AppendCondition(Query.all(), after=huge))
            with pytest.raises(InvalidInput):
                store.retag([huge], add=["x"])
        assert store.head() == 1

    def test_the_longest_names_are_kept(self, store: EventStore) -> None:
        some = random.Random(1)  # what repeats itself could be packed

        def longest(size: int) -> str:
            return "".join(chr(some.randrange(0x10000, 0x10FFFF)) for _ in range(size))

        key = longest(MAX_KEY_BYTES // 4)
        event = Event(longest(256), {}, tags=[longest(256) for _ in range(64)], subject=longest(256))
        store.append(event.with_key(key), stream=longest(256))
        (read,) = store.read(Query.of(QueryItem([event.type], event.tags, subject=event.subject, key=key)))
        assert (read.tags, read.key, len(read.stream or "")) == (event.tags, key, 256)

    def test_huge_limits_are_no_limits(self, store: EventStore) -> None:
        store.append([happened(), happened()])
        assert len(list(store.read(limit=10**30))) == 2
