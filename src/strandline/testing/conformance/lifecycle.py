"""Opening, closing, sharing between threads; errors that travel."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from ... import AppendRequest, AppendResult, EventStore, Query
from ...errors import (
    AppendConditionFailed,
    EventIdConflict,
    InvalidInput,
    StoreClosed,
    StrandlineError,
)
from ..oracle import violations
from .kit import OpenStore, happened, in_thread, is_refused, item, nothing_new, positions

USES: list[Callable[[EventStore], object]] = [
    lambda store: store.append(happened()),
    lambda store: store.append_many([AppendRequest(happened())]),
    lambda store: store.append_many([]),
    lambda store: store.retag([1], add=["x"]),
    lambda store: store.read(),
    lambda store: store.head(),
    lambda store: store.exists(Query.all()),
    lambda store: store.count(),
    lambda store: store.position_at(datetime.now(UTC)),
    lambda store: store.stats(),
    lambda store: store.appends(),
    lambda store: store.subscribe(),
]


class Lifecycle:
    """A store from its opening to its end."""

    @pytest.mark.parametrize("use", USES)
    def test_a_closed_store_refuses_every_use(
        self, store: EventStore, use: Callable[[EventStore], object]
    ) -> None:
        store.append(happened())
        store.close()
        with pytest.raises(StoreClosed) as caught:
            use(store)
        assert "connect" in caught.value.hint

    def test_closing_again_is_harmless(self, store: EventStore) -> None:
        store.close()
        store.close()
        assert store.is_closed
        assert "closed" in repr(store)

    def test_a_store_is_a_context_manager(self, open_store: OpenStore) -> None:
        with open_store() as store:
            store.append(happened())
        with pytest.raises(StoreClosed):
            store.head()

    def test_a_store_closes_when_its_block_fails(self, open_store: OpenStore) -> None:
        with pytest.raises(RuntimeError, match="mine"), open_store() as store:
            raise RuntimeError("mine")
        assert store.is_closed

    def test_a_read_half_done_ends_with_store_closed(self, store: EventStore) -> None:
        store.append([happened() for _ in range(3_000)])
        events = iter(store.read())
        next(events)
        store.close()
        with pytest.raises(StoreClosed):
            list(events)

    def test_closing_while_others_append_loses_nothing_that_was_acknowledged(self, store: EventStore) -> None:
        started = threading.Barrier(5)
        # The memory engine keeps its log when it is closed, others are read again by the engine's own tests.

        def write() -> list[AppendResult]:
            started.wait()
            results = []
            while True:
                try:
                    results.append(store.append(happened("A", "x")))
                except StoreClosed:
                    return results

        writers = [in_thread(write) for _ in range(4)]
        started.wait()
        while store.head() < 20:
            pass
        store.close()
        acknowledged = sorted(result.position for writer in writers for result in writer())
        assert acknowledged == list(range(1, len(acknowledged) + 1))

    def test_threads_share_a_store(self, store: EventStore) -> None:
        def work(worker: int) -> int:
            refused = 0
            for n in range(30):
                query = Query.of(item(f"k:{n % 3}"), item(f"w:{worker}", types=["A"]))
                try:
                    store.append(happened("A", f"k:{n % 3}", f"w:{worker}"), store.read(query).condition)
                except AppendConditionFailed:
                    refused += 1
            return refused

        workers = [in_thread(lambda worker=worker: work(worker)) for worker in range(6)]  # type: ignore[misc]
        refused = sum(worker() for worker in workers)
        assert store.head() + refused == 180
        assert store.stats().refused == refused
        assert violations(store) == []

    def test_one_of_many_equal_decisions_is_accepted(self, store: EventStore) -> None:
        condition = store.read(Query.tag("seat:1")).condition
        started = threading.Barrier(8)

        def decide() -> bool:
            started.wait()
            try:
                store.append(happened("Taken", "seat:1"), condition)
            except AppendConditionFailed:
                return False
            return True

        deciders = [in_thread(decide) for _ in range(8)]
        assert sum(decider() for decider in deciders) == 1
        assert positions(store.read(Query.tag("seat:1"))) == [1]

    def test_repeats_at_once_write_once(self, store: EventStore) -> None:
        events = [happened("A"), happened("B")]
        started = threading.Barrier(6)

        def send() -> AppendResult:
            started.wait()
            return store.append(events)

        results = [sender() for sender in [in_thread(send) for _ in range(6)]]
        assert sorted(result.duplicate for result in results) == [False] + [True] * 5
        assert {(result.first, result.last) for result in results} == {(1, 2)}

    def test_errors_travel_between_processes(self, store: EventStore) -> None:
        store.append(happened("A", "x"))
        taken = happened("A")
        store.append(taken)
        errors: list[StrandlineError] = []
        for use in (
            lambda: store.append(happened(), nothing_new(Query.of(item("x", where={})))),
            lambda: store.append([taken, happened()]),
            lambda: store.append(happened(), nothing_new(Query.all(), 99)),
            lambda: store.read(limit=0),
        ):
            with pytest.raises(StrandlineError) as caught:
                use()
            errors.append(caught.value)
        kinds = [type(error) for error in errors]
        assert kinds == [AppendConditionFailed, EventIdConflict, InvalidInput, InvalidInput]
        for error in errors:
            for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
                assert (type(twin), str(twin), twin.hint) == (type(error), str(error), error.hint)
                assert twin.__dict__ == error.__dict__

    def test_an_error_of_a_callable_condition_tells_its_conflict(self, store: EventStore) -> None:
        store.append(happened("A", "x"))
        query = Query.of(item("x", where=lambda event: True))
        if is_refused(store, query):
            return
        with pytest.raises(AppendConditionFailed) as caught:
            store.append(happened(), nothing_new(query))
        assert caught.value.conflict.position == 1
