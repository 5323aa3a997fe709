"""Tracking: how far a log has taken another source is stored with the append, and only grows."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest

from ... import (
    AppendCondition,
    AppendRequest,
    AppendResult,
    AsyncEventStore,
    Event,
    EventStore,
    Query,
    SequencedEvent,
)
from ...errors import (
    AppendConditionFailed,
    EventIdConflict,
    InvalidEvent,
    InvalidInput,
    StrandlineError,
    TrackingConflict,
)
from .batches import kinds
from .kit import OpenStore, happened, in_thread, is_refused, item, nothing_new

LAST = 2**63 - 1


def conflict(store: EventStore, *arguments: Any, **options: Any) -> TrackingConflict:
    """The error with which the store refuses an append for its tracking; it must, and write nothing."""
    head, source = store.head(), options["tracking"][0]
    before = store.tracked(source)
    with pytest.raises(TrackingConflict) as caught:
        store.append(*arguments, **options)
    assert (store.head(), store.tracked(source)) == (head, before)
    return caught.value


class Tracking:
    """The position of a source goes with the append, or not at all."""

    def test_a_position_of_a_source_is_stored_with_the_append(self, store: EventStore) -> None:
        assert store.tracked("orders") is None
        assert store.append(happened(), tracking=("orders", 17)) == AppendResult(1, 1, 1)
        assert (store.tracked("orders"), store.tracked("other")) == (17, None)

    def test_a_position_that_does_not_increase_is_refused(self, store: EventStore) -> None:
        store.append(happened(), tracking=("orders", 17))
        for position in (17, 16, 0):
            error = conflict(store, happened(), tracking=("orders", position))
            assert (error.tracked, error.status, error.code) == (17, 409, "tracking_conflict")
            assert isinstance(error, InvalidInput)
            assert pickle.loads(pickle.dumps(error)).tracked == 17
        assert store.append(happened(), tracking=("orders", 18)).position == 2
        assert store.tracked("orders") == 18
        assert store.stats().refused == 0

    def test_each_source_has_a_position_of_its_own(self, store: EventStore) -> None:
        store.append(happened(), tracking=("a", 5))
        store.append(happened(), tracking=("A", 3))
        store.append(happened(), tracking=("a ", 4))
        assert [store.tracked(source) for source in ("a", "A", "a ", " a")] == [5, 3, 4, None]

    @pytest.mark.parametrize("source", ["s", "$s", "17 orders", '"$tracking"', "ä\u2028\\\"'{}", "x" * 256])
    def test_a_source_has_any_name(self, store: EventStore, source: str) -> None:
        store.append(happened(), tracking=(source, 1))
        assert conflict(store, happened(), tracking=(source, 1)).tracked == 1
        store.append(happened(), tracking=(source, LAST))
        assert store.tracked(source) == LAST
        assert [event.tracking for event in store.read()] == [(source, 1), (source, LAST)]

    def test_the_first_position_may_be_0(self, store: EventStore) -> None:
        store.append((), tracking=("s", 0))
        assert store.tracked("s") == 0
        assert conflict(store, (), tracking=("s", 0)).tracked == 0

    def test_events_say_with_which_position_they_came(self, store: EventStore) -> None:
        store.append(happened())
        store.append([Event("A", {}, metadata={"by": "me"}), happened("B", "x")], tracking=("orders", 17))
        assert [event.tracking for event in store.read()] == [None, ("orders", 17), ("orders", 17)]
        assert [dict(event.metadata) for event in store.read()] == [{}, {"by": "me"}, {}]
        (backwards, *_) = store.read(Query.tag("x"), backwards=True)
        assert backwards.tracking == ("orders", 17)
        store.retag(Query.tag("x"), replace={"x": []}, add=["y"])
        (retagged,) = store.read(Query.tag("y"))
        assert retagged.tracking == ("orders", 17)
        assert store.tracked("orders") == 17

    def test_a_matcher_does_not_see_the_position_in_the_metadata(self, store: EventStore) -> None:
        seen: list[dict[str, str]] = []

        def look(event: Any) -> bool:
            seen.append(dict(event.metadata))
            return False

        store.append(Event("A", {}, tags=["x"], metadata={"by": "me"}), tracking=("orders", 17))
        store.append(happened(), nothing_new(Query.of(item("x", where={"$metadata": {"by": "you"}}))))
        assert store.exists(Query.of(item("x", where={"$metadata": {"by": "me"}})))
        looking = Query.of(item("x", where=look))
        if not is_refused(store, looking):
            store.append(happened(), nothing_new(looking))
            assert seen == [{"by": "me"}]

    def test_the_json_form_of_an_event_has_the_position(self, store: EventStore) -> None:
        store.append(happened("A"), tracking=("orders", 17))
        store.append(happened("B"))
        tracked, other = store.read()
        assert '"tracking":["orders",17]' in tracked.to_json()
        assert "tracking" not in other.to_json()
        for event in (tracked, other):
            assert SequencedEvent.from_json(event.to_json()) == event
            assert Event.from_json(event.to_json()).id == event.id
        assert b"".join(store.read().ndjson()).count(b"tracking") == 1

    def test_an_append_with_tracking_may_have_no_events(self, store: EventStore) -> None:
        assert store.append((), tracking=("s", 1)) == AppendResult(0, 0, 0)
        store.append(happened())
        result = store.append([], tracking=("s", 2))
        assert (result, result.position, result.duplicate) == (AppendResult(1, 1, 0), 1, False)
        assert (store.tracked("s"), store.head()) == (2, 1)
        assert [append.first for append in store.appends()] == [1]
        assert store.stats().appends == 1
        with pytest.raises(InvalidInput, match="1 to 10,000 events"):
            store.append(())

    def test_an_append_without_events_is_refused_by_its_condition(self, store: EventStore) -> None:
        store.append(happened("A", "x"))
        with pytest.raises(AppendConditionFailed):
            store.append((), nothing_new(Query.tag("x")), tracking=("s", 1))
        assert store.tracked("s") is None
        assert store.append((), nothing_new(Query.tag("x"), 1), tracking=("s", 1)).count == 0
        assert store.tracked("s") == 1

    def test_what_is_refused_moves_nothing(self, store: EventStore) -> None:
        store.append(happened("A", "x"), tracking=("s", 1))
        with pytest.raises(AppendConditionFailed):
            store.append(happened(), nothing_new(Query.tag("x")), tracking=("s", 2))
        with pytest.raises(InvalidInput, match="head of this log"):
            store.append(happened(), nothing_new(Query.tag("x"), 9), tracking=("s", 2))
        assert store.tracked("s") == 1
        assert store.append(happened(), tracking=("s", 2)).position == 2

    def test_a_repeat_is_a_repeat_whatever_it_tracks(self, store: EventStore) -> None:
        event = happened()
        first = store.append(event, tracking=("s", 5))
        for tracking in (("s", 5), ("s", 1), ("s", 9), ("t", 1), None):
            repeat = store.append(event, tracking=tracking)
            assert repeat == AppendResult(first.first, first.last, 1, duplicate=True)
        assert (store.tracked("s"), store.tracked("t"), store.head()) == (5, None, 1)
        with pytest.raises(EventIdConflict):
            store.append([event, happened()], tracking=("s", 5))

    def test_unless_exists_comes_before_tracking(self, store: EventStore) -> None:
        store.append(happened("A", "x"), tracking=("s", 5))
        for tracking in (("s", 5), ("s", 6)):
            for events in ([happened()], []):
                result = store.append(events, unless_exists=Query.tag("x"), tracking=tracking)
                assert result == AppendResult(1, 1, 1, duplicate=True)
        assert store.tracked("s") == 5
        store.append(happened(), unless_exists=Query.tag("y"), tracking=("s", 6))
        assert conflict(store, happened(), unless_exists=Query.tag("y"), tracking=("s", 6)).tracked == 6

    def test_tracking_comes_before_the_condition(self, store: EventStore) -> None:
        store.append(happened("A", "x"), tracking=("s", 5))
        for condition in (nothing_new(Query.tag("x")), nothing_new(Query.all(), 9)):
            assert conflict(store, happened(), condition, tracking=("s", 5)).tracked == 5
            assert conflict(store, (), condition, tracking=("s", 5)).tracked == 5

    @pytest.mark.parametrize("where", [None, {"n": -1}])  # a database judges one of them itself
    def test_a_request_of_a_batch_sees_what_those_before_it_track(
        self, store: EventStore, where: dict[str, int] | None
    ) -> None:
        store.append(happened("A", "x"), tracking=("t", 1))
        condition = AppendCondition.all_of(
            nothing_new(Query.tag("x")), nothing_new(Query.of(item(where=where, types=["Never"])))
        )
        event = happened()
        outcomes = store.append_many(
            [
                AppendRequest(happened(), tracking=("s", 2)),
                AppendRequest(happened(), tracking=("s", 2)),
                AppendRequest(happened(), condition, tracking=("s", 8)),  # refused, so 3 is newer
                AppendRequest((), tracking=("s", 3)),
                AppendRequest([event, happened()], tracking=("s", 4)),
                AppendRequest(happened(), tracking=("t", 1)),
                AppendRequest(happened()),
                AppendRequest((), tracking=("s", 4)),
                AppendRequest((), tracking=("t", 2)),
            ]
        )
        assert kinds([*outcomes]) == [
            AppendResult(2, 2, 1),
            TrackingConflict,
            AppendConditionFailed,
            AppendResult(2, 2, 0),
            AppendResult(3, 4, 2),
            TrackingConflict,
            AppendResult(5, 5, 1),
            TrackingConflict,
            AppendResult(5, 5, 0),
        ]
        assert [error.tracked for error in outcomes if isinstance(error, TrackingConflict)] == [2, 1, 4]
        assert (store.tracked("s"), store.tracked("t")) == (4, 2)
        assert [append.first for append in store.appends()] == [1, 2, 3, 5]
        assert store.stats().appends == 4

    def test_the_newest_position_of_a_long_batch_is_stored(self, store: EventStore) -> None:
        requests = [AppendRequest(happened(), tracking=("s", n // 2)) for n in range(300)]
        outcomes = store.append_many(requests)
        assert [isinstance(outcome, TrackingConflict) for outcome in outcomes] == [False, True] * 150
        assert (store.tracked("s"), store.head()) == (149, 150)

    def test_of_two_consumers_one_takes_each_position(self, store: EventStore) -> None:
        def consume() -> list[int]:
            taken = []
            for position in range(40):
                try:
                    store.append(happened("Taken", n=position), tracking=("s", position))
                    taken.append(position)
                except TrackingConflict as error:
                    assert error.tracked >= position
            return taken

        calls = [in_thread(consume) for _ in range(3)]
        taken = [position for call in calls for position in call()]
        assert sorted(taken) == list(range(40))
        assert [event.tracking for event in store.read()] == [("s", position) for position in range(40)]

    def test_bad_tracking_is_refused(self, store: EventStore) -> None:
        bad: list[Any] = ["s", 1, ("s",), ("s", 1, 2), {"s": 1}, ("", 1), (1, 1), ("x" * 257, 1), ("a\n", 1)]
        bad += [("s", -1), ("s", True), ("s", "1"), ("s", 1.0), ("s", None), ("s", LAST + 1), ("\ud800", 1)]
        for tracking in bad:
            with pytest.raises(InvalidInput):
                store.append(happened(), tracking=tracking)
        for source in ("", 1, None, "a\0", "x" * 257):
            with pytest.raises(InvalidInput):
                store.tracked(source)  # type: ignore[arg-type]
        with pytest.raises(InvalidEvent, match="reserved"):
            Event("A", {}, metadata={"$tracking": "1 s"})
        with pytest.raises(InvalidEvent, match="reserved"):
            happened().with_metadata({"$tracking": "1 s"})
        assert store.head() == 0

    def test_a_failing_clock_moves_nothing(self, open_store: OpenStore) -> None:
        times = iter([1, 0])

        def clock() -> Any:
            return 1 / next(times)

        store = open_store(clock=clock)
        outcomes = store.append_many([AppendRequest(happened(), tracking=("s", n)) for n in (1, 2)])
        assert all(isinstance(outcome, StrandlineError) for outcome in outcomes)
        assert (store.head(), store.tracked("s")) == (0, None)

    def test_it_is_the_same_awaited(self, store: EventStore) -> None:
        async def run() -> None:
            awaited = AsyncEventStore(store)
            await awaited.append(happened(), tracking=("s", 1))
            assert (await awaited.append((), tracking=("s", 2))).count == 0
            assert await awaited.tracked("s") == 2
            assert await awaited.tracked("t") is None
            results = await asyncio.gather(
                *(awaited.append(happened(), tracking=("s", 3)) for _ in range(20)), return_exceptions=True
            )
            assert sum(isinstance(result, AppendResult) for result in results) == 1
            assert sum(isinstance(result, TrackingConflict) for result in results) == 19

        asyncio.run(run())
        assert (store.head(), store.tracked("s")) == (2, 3)
