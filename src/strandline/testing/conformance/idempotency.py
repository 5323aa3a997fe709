"""Repeats, taken ids and `unless_exists`, and the order of checks."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest

from ... import AppendCondition, AppendResult, Event, EventStore, Query
from ...errors import AppendConditionFailed, EventIdConflict, InvalidInput
from .kit import happened, is_refused, item, nothing_new, refusal

ID = UUID(int=7)


def event_with(**changes: object) -> Event:
    """An event with a fixed id, and with some of its fields changed."""
    fields: dict[str, object] = {"type": "A", "data": {"n": 1}, "tags": ["x"], "stream": "s", "subject": "u"}
    return Event(**{"id": ID, **fields, **changes})  # type: ignore[arg-type]


class Idempotency:
    """Writing once what is sent twice."""

    def test_a_repeat_returns_the_result_of_the_first(self, store: EventStore) -> None:
        store.append(happened())
        events = [happened("A", "x"), happened("B")]
        assert store.append(events) == AppendResult(2, 3, 2)
        store.append(happened())
        assert store.append(events) == AppendResult(2, 3, 2, duplicate=True)
        assert store.head() == 4

    def test_a_repeat_is_one_whatever_its_condition(self, store: EventStore) -> None:
        event = happened("A", "x")
        first = nothing_new(Query.tag("x"))
        store.append(event, first)
        for condition in (None, first, nothing_new(Query.all()), nothing_new(Query.tag("x"), 99)):
            assert store.append(event, condition) == AppendResult(1, 1, 1, duplicate=True)
        assert store.append(event, unless_exists=Query.tag("absent")).duplicate

    def test_metadata_is_not_compared(self, store: EventStore) -> None:
        store.append(event_with(metadata={"try": "1"}))
        assert store.append(event_with(metadata={"try": "2"})).duplicate
        (event,) = store.read()
        assert event.metadata == {"try": "1"}

    def test_the_stream_counts_wherever_it_was_given(self, store: EventStore) -> None:
        store.append(event_with(stream=None), stream="s")
        assert store.append(event_with(stream="s")).duplicate

    @pytest.mark.parametrize(
        "change",
        [
            {"type": "B"},
            {"data": {"n": 2}},
            {"data": b'{"n": 1}'},
            {"tags": []},
            {"tags": ["x", "y"]},
            {"stream": None},
            {"stream": "t"},
            {"subject": None},
            {"subject": "v"},
        ],
    )
    def test_the_same_id_on_another_event_is_a_conflict(
        self, store: EventStore, change: dict[str, object]
    ) -> None:
        store.append(event_with())
        with pytest.raises(EventIdConflict) as caught:
            store.append(event_with(**change))
        assert (caught.value.retry, store.head()) == ("no", 1)
        assert caught.value.hint

    @pytest.mark.parametrize(
        "choose",
        [
            lambda a, b, c, d: [b, a],
            lambda a, b, c, d: [a],
            lambda a, b, c, d: [b],
            lambda a, b, c, d: [a, b, c],
            lambda a, b, c, d: [a, b, d],
            lambda a, b, c, d: [d, a, b],
            lambda a, b, c, d: [d, c],
            lambda a, b, c, d: [a, a],
        ],
    )
    def test_any_other_overlap_of_ids_is_a_conflict(
        self, store: EventStore, choose: Callable[..., list[Event]]
    ) -> None:
        a, b, c, d = (happened(name) for name in "ABCD")
        store.append([a, b])
        store.append(c)
        with pytest.raises(EventIdConflict):
            store.append(choose(a, b, c, d))
        assert store.head() == 3

    def test_one_id_twice_in_one_append_is_a_conflict(self, store: EventStore) -> None:
        event = happened("A")
        with pytest.raises(EventIdConflict):
            store.append([event, event])
        with pytest.raises(EventIdConflict):
            store.append([event, happened("B"), Event("C", {}, id=event.id)])
        assert store.head() == 0

    def test_a_conflict_of_ids_says_which_and_why(self, store: EventStore) -> None:
        a, b = happened("A"), happened("B")
        store.append([happened(), a, b][1:])
        told = {
            f"the id {a.id} is that of event 1, .* it has 1 event, that one 2": [a],
            f"event 1 of it has the id {b.id}, that of the other {a.id}": [b, a],
            "event 2 of it has other type and other tags": [a, Event("C", b.data, tags=["x"], id=b.id)],
            f"the id {b.id} is twice in this append": [b, b],
        }
        for message, events in told.items():
            with pytest.raises(EventIdConflict, match=message):
                store.append(events)

    def test_ids_are_judged_before_the_condition(self, store: EventStore) -> None:
        store.append(event_with())
        for condition in (nothing_new(Query.all()), nothing_new(Query.all(), 9)):
            with pytest.raises(EventIdConflict):
                store.append(event_with(type="B"), condition)

    def test_a_repeat_compares_with_the_tags_as_appended(self, store: EventStore) -> None:
        store.append(event_with())
        store.retag([1], replace={"x": []}, add=["y"])
        assert store.append(event_with()) == AppendResult(1, 1, 1, duplicate=True)
        with pytest.raises(EventIdConflict):
            store.append(event_with(tags=["x", "y"]))

    def test_a_repeat_after_two_retags_still_is_one(self, store: EventStore) -> None:
        events = [happened("A", "x:1"), happened("A", "x:2", "y:1")]
        store.append(events)
        store.retag(Query.tag("x:1"), replace={"x": ["9"]})
        store.retag([1, 2], add=["z"])
        assert store.append(events) == AppendResult(1, 2, 2, duplicate=True)

    def test_the_id_of_a_retag_is_taken(self, store: EventStore) -> None:
        store.append(happened("A"))
        store.retag([1], add=["x"])
        (retagged,) = store.read(Query.types("$retagged"))
        with pytest.raises(EventIdConflict):
            store.append(Event("A", {}, id=retagged.id))

    def test_repeats_and_conflicts_of_ids_are_not_recorded(self, store: EventStore) -> None:
        store.append(event_with())
        store.append(event_with())
        with pytest.raises(EventIdConflict):
            store.append(event_with(type="B"))
        assert len(list(store.appends())) == 1
        assert store.stats().refused == 0

    def test_a_refused_append_can_be_sent_again_with_the_same_ids(self, store: EventStore) -> None:
        store.append(happened("A", "x"))
        event = happened("B")
        with pytest.raises(AppendConditionFailed):
            store.append(event, nothing_new(Query.tag("x")))
        assert store.append(event, nothing_new(Query.tag("x"), 1)) == AppendResult(2, 2, 1)

    def test_unless_exists_writes_when_nothing_matches(self, store: EventStore) -> None:
        store.append(happened("A", "x"))
        result = store.append(happened("B", "k"), unless_exists=Query.tag("k"))
        assert result == AppendResult(2, 2, 1)

    def test_unless_exists_returns_the_append_that_holds_the_first_match(self, store: EventStore) -> None:
        store.append(happened("A"))
        store.append([happened("A"), happened("A", "k"), happened("A", "k")])
        store.append(happened("A", "k"))
        result = store.append(happened("B"), unless_exists=Query.tag("k"))
        assert result == AppendResult(2, 4, 3, duplicate=True)
        assert store.head() == 5

    def test_unless_exists_takes_every_query(self, store: EventStore) -> None:
        store.append(Event("A", {"n": 1}, tags=["x"], stream="s", subject="u"))
        matching = (
            Query.all(),
            Query.types("B", "A"),
            Query.stream("s"),
            Query.subject("u"),
            Query.of(item("absent"), item(where={"n": 1})),
            Query.of(item(where=lambda event: event.type == "A")),
        )
        for query in matching:
            if is_refused(store, query):
                continue
            assert store.append(happened("B"), unless_exists=query) == AppendResult(1, 1, 1, duplicate=True)
        store.append(happened("B"), unless_exists=Query.of(item("x", types=["B"])))
        assert store.head() == 2

    def test_unless_exists_sees_the_present_tags(self, store: EventStore) -> None:
        store.append(happened("A", "k"))
        store.retag([1], replace={"k": []}, add=["z"])
        assert store.append(happened("B"), unless_exists=Query.tag("z")).duplicate
        store.append(happened("A", "key:1"))
        store.retag([3], replace={"key": ["2"]})
        assert not store.append(happened("B"), unless_exists=Query.tag("key:1")).duplicate

    def test_unless_exists_is_judged_before_the_condition(self, store: EventStore) -> None:
        store.append(happened("A", "k"))
        for condition in (nothing_new(Query.all()), nothing_new(Query.all(), 99)):
            assert store.append(happened("B"), condition, unless_exists=Query.tag("k")).duplicate
        with pytest.raises(AppendConditionFailed):
            store.append(happened("B"), nothing_new(Query.all()), unless_exists=Query.tag("absent"))
        with pytest.raises(InvalidInput):
            store.append(happened("B"), nothing_new(Query.all(), 9), unless_exists=Query.tag("absent"))

    def test_ids_are_judged_before_unless_exists(self, store: EventStore) -> None:
        store.append(happened("A", "k"))
        store.append(event_with())
        assert store.append(event_with(), unless_exists=Query.tag("k")) == AppendResult(
            2, 2, 1, duplicate=True
        )
        with pytest.raises(EventIdConflict):
            store.append(event_with(type="B"), unless_exists=Query.tag("k"))

    def test_unless_exists_and_condition_both_hold_for_what_is_written(self, store: EventStore) -> None:
        condition = store.read(Query.tag("x")).condition
        result = store.append(happened("A", "x", "k"), condition, unless_exists=Query.tag("k"))
        assert result == AppendResult(1, 1, 1)
        assert refusal(store, condition).conflict.position == 1
        (recorded,) = store.appends()
        assert recorded.condition == AppendCondition.all_of(condition, nothing_new(Query.tag("k")))
