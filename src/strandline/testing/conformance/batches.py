"""append_many: several appends in one transaction, judged one after another."""

from __future__ import annotations

import pytest

from ... import AppendCondition, AppendRequest, AppendResult, Event, EventStore, Query
from ...errors import AppendConditionFailed, EventIdConflict, InvalidInput, InvalidQuery, PayloadTooLarge
from .kit import OpenStore, happened, is_refused, item, nothing_new, positions


def kinds(outcomes: list[object]) -> list[object]:
    """Results as they are, errors as their classes."""
    return [outcome if isinstance(outcome, AppendResult) else type(outcome) for outcome in outcomes]


class Batches:
    """Many appends at once mean the same as one by one."""

    def test_results_come_in_the_order_of_the_requests(self, store: EventStore) -> None:
        requests = [AppendRequest(happened()), AppendRequest([happened(), happened()])]
        assert store.append_many(requests) == [AppendResult(1, 1, 1), AppendResult(2, 3, 2)]
        assert store.append_many([]) == []
        assert store.head() == 3

    def test_each_request_sees_those_accepted_before_it(self, store: EventStore) -> None:
        never = nothing_new(Query.tag("x"))
        outcomes = store.append_many([AppendRequest(happened("A", "x"), never) for _ in range(3)])
        assert kinds([*outcomes]) == [AppendResult(1, 1, 1), AppendConditionFailed, AppendConditionFailed]
        error = outcomes[1]
        assert isinstance(error, AppendConditionFailed)
        assert error.conflict == next(iter(store.read()))

    def test_a_refused_request_undoes_nothing_else(self, store: EventStore) -> None:
        store.append(happened("A", "x"))
        outcomes = store.append_many(
            [
                AppendRequest(happened("B")),
                AppendRequest([happened("C", "y"), happened("C", "y")], nothing_new(Query.tag("x"))),
                AppendRequest(happened("D"), nothing_new(Query.tag("y"))),
            ]
        )
        assert kinds([*outcomes]) == [AppendResult(2, 2, 1), AppendConditionFailed, AppendResult(3, 3, 1)]
        assert [event.type for event in store.read()] == ["A", "B", "D"]

    def test_after_may_be_a_position_that_the_batch_itself_reached(self, store: EventStore) -> None:
        outcomes = store.append_many(
            [
                AppendRequest(happened("A", "x")),
                AppendRequest(happened("A", "x"), nothing_new(Query.tag("x"), 1)),
                AppendRequest(happened("A", "x"), nothing_new(Query.tag("x"), 1)),
                AppendRequest(happened("A", "x"), nothing_new(Query.tag("x"), 3)),
            ]
        )
        expected = [AppendResult(1, 1, 1), AppendResult(2, 2, 1), AppendConditionFailed, InvalidInput]
        assert kinds([*outcomes]) == expected

    def test_after_beyond_the_head_is_returned_for_its_own_request(self, store: EventStore) -> None:
        beyond = AppendRequest(happened(), nothing_new(Query.all(), 9))
        outcomes = store.append_many([AppendRequest(happened()), beyond, AppendRequest(happened())])
        assert kinds([*outcomes]) == [AppendResult(1, 1, 1), InvalidInput, AppendResult(2, 2, 1)]

    def test_a_repeat_within_a_batch_is_one(self, store: EventStore) -> None:
        request = AppendRequest([happened("A", "x"), happened("B")], nothing_new(Query.tag("x")))
        outcomes = store.append_many([request, AppendRequest(happened()), request])
        assert outcomes == [
            AppendResult(1, 2, 2),
            AppendResult(3, 3, 1),
            AppendResult(1, 2, 2, duplicate=True),
        ]

    def test_a_taken_id_within_a_batch_is_a_conflict(self, store: EventStore) -> None:
        a, b = happened("A"), happened("B")
        outcomes = store.append_many([AppendRequest([a, b]), AppendRequest(a), AppendRequest(happened())])
        assert kinds([*outcomes]) == [AppendResult(1, 2, 2), EventIdConflict, AppendResult(3, 3, 1)]

    def test_the_ids_of_a_refused_request_are_free(self, store: EventStore) -> None:
        event = happened("A", "x")
        refused = AppendRequest(event, nothing_new(Query.tag("y")))
        outcomes = store.append_many([AppendRequest(happened("B", "y")), refused, AppendRequest(event)])
        assert kinds([*outcomes]) == [AppendResult(1, 1, 1), AppendConditionFailed, AppendResult(2, 2, 1)]

    def test_unless_exists_sees_the_batch(self, store: EventStore) -> None:
        once = Query.tag("k")
        requests = [AppendRequest([happened("A"), happened("A", "k")], unless_exists=once) for _ in range(2)]
        assert store.append_many(requests) == [AppendResult(1, 2, 2), AppendResult(1, 2, 2, duplicate=True)]

    def test_streams_are_given_per_request(self, store: EventStore) -> None:
        store.append_many([AppendRequest(happened(), stream="s"), AppendRequest(happened(), None, "t")])
        assert [event.stream for event in store.read()] == ["s", "t"]

    def test_every_request_is_an_append_of_its_own(self, store: EventStore) -> None:
        condition = nothing_new(Query.tag("x"))
        store.append_many([AppendRequest([happened(), happened()]), AppendRequest(happened(), condition)])
        ranges = [(append.first, append.last, append.condition) for append in store.appends()]
        assert ranges == [(1, 2, None), (3, 3, condition)]

    def test_a_callable_that_raises_fails_its_own_request_only(self, store: EventStore) -> None:
        def broken(event: object) -> bool:
            raise RuntimeError("broken matcher")

        store.append(happened("A", "x"))
        query = Query.of(item("x", where=broken))
        if is_refused(store, query):
            return
        requests = [
            AppendRequest(happened()),
            AppendRequest(happened(), nothing_new(query)),
            AppendRequest(happened()),
        ]
        outcomes = store.append_many(requests)
        assert kinds([*outcomes]) == [AppendResult(2, 2, 1), InvalidQuery, AppendResult(3, 3, 1)]
        assert "broken matcher" in str(outcomes[1])

    def test_bad_input_in_any_request_raises_before_anything_is_written(self, open_store: OpenStore) -> None:
        store = open_store(max_data_bytes=100)
        good, large = AppendRequest(happened()), AppendRequest(Event("A", b"x" * 101))
        with pytest.raises(PayloadTooLarge):
            store.append_many([good, large])
        for bad in (happened(), None, [happened()], "text"):
            with pytest.raises(InvalidInput):
                store.append_many([good, bad])  # type: ignore[list-item]
        assert store.head() == 0

    def test_a_large_batch_equals_its_requests_one_by_one(
        self, store: EventStore, open_store: OpenStore
    ) -> None:
        requests: list[AppendRequest] = []
        for n in range(300):
            condition = AppendCondition(Query.tag(f"k:{n % 7}"), after=n // 4) if n % 3 else None
            requests.append(AppendRequest(happened("A", f"k:{n % 7}", n=n), condition))
        outcomes = store.append_many(requests)
        head = 0
        for request, outcome in zip(requests, outcomes, strict=True):
            accepted = isinstance(outcome, AppendResult)
            conflicts = [
                event.position
                for part in (request.condition.parts if request.condition else ())
                for event in store.read(part.fail_if_events_match, after=part.after, until=head)
            ]
            if request.condition is not None and request.condition.after > head:
                assert type(outcome) is InvalidInput
            else:
                assert accepted == (not conflicts)
            head += accepted
        assert positions(store.read()) == list(range(1, head + 1))
