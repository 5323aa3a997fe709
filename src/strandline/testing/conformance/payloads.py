"""`where`: which payloads a matcher takes."""

from __future__ import annotations

from typing import Any

import pytest

from ... import AppendRequest, Event, EventStore, Query
from ...errors import AppendConditionFailed, InvalidInput, InvalidQuery
from .kit import happened, is_refused, item, nothing_new, positions, refusal

HOLDS: list[tuple[dict[str, Any], Any]] = [
    ({"a": 1}, {"a": 1, "b": 2}),
    ({"a": 1}, {"a": 1.0}),
    ({"a": 1, "b": "x"}, {"a": 1, "b": "x"}),
    ({"a": None}, {"a": None}),
    ({"a": True}, {"a": True}),
    ({"a": {"b": {"c": 1}}}, {"a": {"b": {"c": 1, "d": 2}, "e": 3}}),
    ({"a": {}}, {"a": {"b": 1}}),
    ({}, {"a": 1}),
    ({"a": [1, 2]}, {"a": 2}),
    ({"a": ["x", {"b": 1}]}, {"a": {"b": 1, "c": 2}}),
    ({"a": [{"$gt": 5}, 1]}, {"a": 9}),
    ({"a": {"$eq": [1, 2]}}, {"a": [1, 2]}),
    ({"a": {"$eq": {"b": 1}}}, {"a": {"b": 1.0}}),
    ({"a": {"$ne": 1}}, {"a": 2}),
    ({"a": {"$ne": 1}}, {"a": True}),
    ({"a": {"$ne": 1}}, {"b": 1}),
    ({"a": {"$nin": [1, 2]}}, {"a": 3}),
    ({"a": {"$nin": [1, 2]}}, {}),
    ({"a": {"b": {"$ne": 1}}}, {}),
    ({"a": {"b": {"$nin": [1]}}}, {"a": "text"}),
    ({"a": {"$in": [1, "x", None]}}, {"a": None}),
    ({"a": {"$gt": 1}}, {"a": 1.5}),
    ({"a": {"$gte": 1}}, {"a": 1}),
    ({"a": {"$lt": "b"}}, {"a": "a"}),
    ({"a": {"$lte": 1.0}}, {"a": 1}),
    ({"a": {"$gt": 1, "$lt": 5}}, {"a": 3}),
    ({"a": {"$gt": 2**60}}, {"a": 2**60 + 1}),
    ({"a": {"$has": 1}}, {"a": [3, 1]}),
    ({"a": {"$has": {"b": 1}}}, {"a": [{"b": 1}]}),
    ({"a": {"$hasAny": [7, 1]}}, {"a": [3, 1]}),
    ({"$eq": 5}, 5),
    ({"$has": "x"}, ["x"]),
    ({"": 1}, {"": 1}),
    ({"$metadata": {"by": "me"}}, {}),
    ({"$metadata": {"by": ["you", "me"]}, "a": 1}, {"a": 1}),
    ({"$metadata": {"absent": {"$ne": "x"}}}, {"a": 1}),
    ({"$metadata": {"by": "me"}}, [1]),
]
FAILS: list[tuple[dict[str, Any], Any]] = [
    ({"a": 1}, {"a": 2}),
    ({"a": 1}, {"b": 1}),
    ({"a": 1}, {"a": True}),
    ({"a": True}, {"a": 1}),
    ({"a": 0}, {"a": False}),
    ({"a": 1}, {"a": "1"}),
    ({"a": None}, {}),
    ({"a": None}, {"a": False}),
    ({"a": ""}, {"a": None}),
    ({"a": 1, "b": 1}, {"a": 1}),
    ({"a": {"b": 1}}, {"a": 1}),
    ({"a": {"b": 1}}, {"a": [{"b": 1}]}),
    ({"a": {}}, {"a": 1}),
    ({"a": {}}, {}),
    ({"a": []}, {"a": []}),
    ({"a": [1, 2]}, {"a": [1, 2]}),
    ({"a": [1, 2]}, {}),
    ({"a": {"$eq": 1}}, {}),
    ({"a": {"$eq": {"b": 1}}}, {"a": {"b": 1, "c": 2}}),
    ({"a": {"$eq": [1, 2]}}, {"a": [2, 1]}),
    ({"a": {"$ne": 1}}, {"a": 1.0}),
    ({"a": {"$nin": [1, 2]}}, {"a": 2}),
    ({"a": {"$in": []}}, {"a": 1}),
    ({"a": {"$in": [1]}}, {}),
    ({"a": {"$in": [1]}}, {"a": True}),
    ({"a": {"$gt": 1}}, {"a": 1}),
    ({"a": {"$gt": 1}}, {"a": "2"}),
    ({"a": {"$gt": 0}}, {"a": True}),
    ({"a": {"$gt": 1}}, {}),
    ({"a": {"$gt": 1}}, {"a": None}),
    ({"a": {"$gte": None}}, {"a": None}),
    ({"a": {"$lt": 1}}, {"a": "0"}),
    ({"a": {"$lte": 1}}, {}),
    ({"a": {"$gt": 1, "$lt": 5}}, {"a": 5}),
    ({"a": {"$has": 1}}, {"a": 1}),
    ({"a": {"$has": 1}}, {"a": [True, "1"]}),
    ({"a": {"$has": "x"}}, {"a": "xyz"}),
    ({"a": {"$has": 1}}, {}),
    ({"a": {"$hasAny": []}}, {"a": [1]}),
    ({"a": {"$hasAny": [1]}}, {"a": 1}),
    ({"a": 1}, [1]),
    ({"a": 1}, "a"),
    ({}, [1]),
    ({"a": {"$ne": 1}}, b"not JSON"),
    ({}, b""),
    ({"$metadata": {"by": "me"}}, b"not JSON"),
    ({"$metadata": {"by": "you"}}, {}),
    ({"$metadata": {"by": "me"}, "a": 1}, {"a": 2}),
    ({"$metadata": {"absent": "x"}}, {}),
    ({"by": "me"}, {}),
    ({"a": {"$ne": 1}}, b"[" * 100_000 + b"]" * 100_000),
]


class Payloads:
    """Object matchers and callables."""

    @pytest.mark.parametrize(
        ("where", "data", "expected"),
        [*((where, data, True) for where, data in HOLDS), *((where, data, False) for where, data in FAILS)],
    )
    def test_a_matcher_holds_or_fails_wherever_it_is_asked(
        self, store: EventStore, where: dict[str, Any], data: Any, *, expected: bool
    ) -> None:
        store.append(Event("A", data, tags=["x"], metadata={"by": "me"}))
        for query in (Query.of(item(where=where)), Query.of(item("x", types=["A"], where=where))):
            assert positions(store.read(query)) == ([1] if expected else [])
            assert (store.count(query), store.exists(query)) == (int(expected), expected)
            (outcome,) = store.append_many([_request(query)])
            assert isinstance(outcome, AppendConditionFailed) == expected

    @pytest.mark.parametrize(
        "where",
        [
            {"a": {"$regex": "x"}},
            {"a": {"b": {"$Eq": 1}}},
            {"$or": []},
            {"a": [{"$nope": 1}]},
            {"a": {"$gt": 1, "b": 2}},
            {"a": {"$metadata": {}}},
            {"$metadata": "x"},
            {"$metadata": {"$eq": "x"}},
            {"a": {"$in": 1}},
            {"a": {"$nin": "x"}},
            {"a": {"$hasAny": {}}},
            {"a": object()},
            {"a": "\ud800"},
            {"a": float("nan")},
            {"a": {"$lt": float("inf")}},
            {"a": {"$in": [1, -float("inf")]}},
            "a = 1",
            7,
            [],
        ],
    )
    def test_a_matcher_that_cannot_be_asked_is_an_invalid_query(self, where: Any) -> None:
        with pytest.raises(InvalidQuery):
            item(where=where)

    def test_a_matcher_does_not_change_with_the_object_it_came_from(self, store: EventStore) -> None:
        where = {"a": {"$in": [1]}}
        query = Query.of(item(where=where))
        where["a"]["$in"].append(2)
        store.append(happened("A", a=2))
        assert not store.exists(query)

    def test_a_callable_sees_the_whole_event(self, store: EventStore) -> None:
        store.append(Event("A", {"n": 1}, tags=["x"], stream="s", subject="u", metadata={"by": "me"}))
        (event,) = store.read()
        seen: list[object] = []

        def see(found: object) -> bool:
            seen.append(found)
            return True

        query = Query.of(item(where=see))
        if is_refused(store, query):
            return
        assert positions(store.read(query)) == [1]
        assert seen == [event]

    def test_a_callable_that_raises_is_an_invalid_query(self, store: EventStore) -> None:
        store.append(happened("A", "x"))
        query = Query.of(item("x", where=lambda event: 1 / 0))
        if is_refused(store, query):
            return
        for ask in (
            lambda: list(store.read(query)),
            lambda: store.count(query),
            lambda: store.exists(query),
            lambda: store.append(happened(), nothing_new(query)),
            lambda: store.append(happened(), unless_exists=query),
        ):
            with pytest.raises(InvalidQuery, match="ZeroDivisionError"):
                ask()
        assert store.append(happened()).position == 2

    def test_a_callable_is_asked_only_about_candidates(self, store: EventStore) -> None:
        store.append([happened("A", "x"), happened("B", "y")])
        query = Query.of(item("x", where=lambda event: 1 // (event.type == "A") > 0))
        if is_refused(store, query):
            return
        assert positions(store.read(query)) == [1]
        store.append(happened(), nothing_new(query, 1))

    def test_calling_the_store_from_a_matcher_raises(self, store: EventStore) -> None:
        store.append(happened("A", "x"))
        calls = [
            store.head,
            store.count,
            lambda: list(store.read()),
            lambda: store.exists(Query.all()),
            lambda: store.append(happened()),
            lambda: store.append_many([_request(Query.tag("y"))]),
            lambda: store.retag([1], add=["z"]),
            lambda: list(store.appends()),
            store.stats,
            store.subscribe,
        ]
        for call in calls:
            errors: list[Exception] = []

            def matcher(event: object, call: Any = call, errors: list[Exception] = errors) -> bool:
                with pytest.raises(InvalidInput, match="matcher") as caught:
                    call()
                errors.append(caught.value)
                return False

            query = Query.of(item("x", where=matcher))
            if is_refused(store, query):
                continue
            store.append(happened("B"), nothing_new(query))
            assert not store.exists(query)
            assert len(errors) == 2

    def test_the_store_works_after_a_matcher_raised(self, store: EventStore) -> None:
        store.append(happened("A", "x"))
        with pytest.raises(InvalidQuery):
            store.exists(Query.of(item("x", where=lambda event: event.absent)))
        assert store.head() == 1

    def test_a_matcher_of_two_arguments_gets_the_metadata(self, store: EventStore) -> None:
        query = Query.of(
            item("x", where=lambda event, metadata: metadata.get("user") == event.json()["user"])
        )
        if is_refused(store, query):
            return
        for user in ("ada", "bob"):
            store.append(Event("A", {"user": "ada"}, tags=["x"], metadata={"user": user}))
        assert positions(store.read(query)) == [1]
        assert refusal(store, nothing_new(query)).conflict.position == 1
        store.append(happened("A", "x", user="eve"), nothing_new(query, 1))

    def test_both_of_two_matchers_hold(self, store: EventStore) -> None:
        store.append([happened("A", n=1), happened("A", n=2, m=1), happened("A", n=3, m=1)])
        at_least = Query.of(item(where={"n": {"$gte": 2}}))
        query = at_least & Query.of(item(where={"m": 1})) & Query.of(item(where={"n": {"$lt": 3}}))
        assert positions(store.read(query)) == [2]
        with_callable = at_least & Query.of(item(where=lambda event: event.json()["n"] != 2))
        if not is_refused(store, with_callable):
            assert positions(store.read(with_callable)) == [3]
        never = Query.of(item(where={"n": 1})) & Query.of(item(where={"n": True}))
        assert positions(store.read(never)) == []

    def test_deeply_nested_data_is_data_like_any_other(self, store: EventStore) -> None:
        deep = b"[" * 100_000 + b"]" * 100_000
        store.append(Event("A", deep))
        assert [event.data for event in store.read()] == [deep]
        assert len(list(store.read().ndjson())) == 1
        (event,) = store.read()
        with pytest.raises(InvalidInput):
            event.json()


def _request(query: Query) -> AppendRequest:
    return AppendRequest(happened("Other", "other"), nothing_new(query, 0))
