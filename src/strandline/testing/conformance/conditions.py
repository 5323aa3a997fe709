"""Append conditions: exact for every shape of query."""

from __future__ import annotations

from uuid import uuid4

import pytest

from ... import AppendCondition, AppendConditionFailed, Event, EventStore, Query, QueryItem, SequencedEvent
from ...errors import InvalidInput
from .kit import happened, is_refused, item, nothing_new, refusal

MATCHING = Event("Paid", {"amount": 5}, tags=["order:1", "user:1"], stream="s", subject="u")
SHAPES: list[tuple[Query, Event | None]] = [
    (Query.all(), None),
    (Query.of(QueryItem()), None),
    (Query.user(), None),
    (Query.types("Paid"), happened("Sent", "order:1", "user:1")),
    (Query.types("Sent", "Paid"), happened("Other", "order:1", "user:1")),
    (Query.tag("order:1"), happened("Paid", "order:2", "user:1")),
    (Query.tag("order:1", "user:1"), happened("Paid", "order:1", "user:2")),
    (Query.of(item("order:1", types=["Paid"])), happened("Sent", "order:1")),
    (Query.of(item("user:1", types=["Sent", "Paid"])), happened("Paid", "user:2")),
    (Query.of(item(exclude_types=["Sent"])), happened("Sent", "order:1")),
    (Query.of(item("order:1", exclude_types=["Sent"])), happened("Sent", "order:1")),
    (Query.stream("s"), Event("Paid", {}, stream="t", tags=["order:1"])),
    (Query.subject("u"), Event("Paid", {}, subject="v", tags=["order:1"])),
    (Query.of(item("order:1", stream="s", subject="u")), Event("Paid", {}, stream="s", tags=["order:1"])),
    (Query.of(item(where={"amount": {"$gt": 4}})), happened("Paid", "order:1", amount=4)),
    (Query.of(item("order:1", where={"amount": 5})), happened("Paid", "order:1", amount=6)),
    (Query.of(item(types=["Paid"], where=lambda e: e.json().get("amount") == 5)), happened("Paid", amount=6)),
    (Query.of(item("absent"), item("order:1")), happened("Paid", "user:1")),
    (Query.of(item("order:2", types=["Paid"]), item("user:1", types=["Paid"])), happened("Sent", "user:1")),
    (Query.of(item("order:2", types=["Paid"]), item("user:1", types=["Paid"])), happened("Paid", "order:1")),
    (Query.of(item(types=["Absent"]), item(stream="s"), item(subject="w")), happened("Paid", "order:1")),
]


class Conditions:
    """When an append is refused, and when not."""

    @pytest.mark.parametrize(("query", "harmless"), SHAPES)
    def test_an_append_fails_when_a_matching_event_arrived_after_the_read(
        self, store: EventStore, query: Query, harmless: Event | None
    ) -> None:
        store.append([happened("Paid", "order:1"), MATCHING])
        if is_refused(store, query):
            return
        decision = store.read(query).condition
        if harmless is not None:
            store.append(harmless)
            store.append(
                Event.from_json(harmless.to_json().replace(str(harmless.id), str(uuid4()))), decision
            )
        newer = Event("Paid", {"amount": 5}, tags=["order:1", "user:1"], stream="s", subject="u")
        at = store.append(newer).position
        error = refusal(store, decision)
        assert error.conflict.position == at
        (conflict,) = store.read(query, after=decision.after)
        assert error.conflict == conflict
        store.append(happened("Decided"), store.read(query).condition)

    def test_a_condition_without_after_means_never_before(self, store: EventStore) -> None:
        unique = AppendCondition(Query.tag("email:a"))
        store.append(happened("A", "email:b"), unique)
        store.append(happened("A", "email:a"), unique)
        assert refusal(store, unique).conflict.position == 2

    def test_an_event_at_after_itself_is_known(self, store: EventStore) -> None:
        store.append([happened("A", "x"), happened("A", "x")])
        assert refusal(store, nothing_new(Query.tag("x"), 1)).conflict.position == 2
        store.append(happened("A"), nothing_new(Query.tag("x"), 2))

    def test_the_error_tells_what_conflicted(self, store: EventStore) -> None:
        query = Query.of(item("x"), item(types=["B"]))
        store.append([happened("A"), happened("B"), happened("A", "x")])
        error = refusal(store, nothing_new(query, 1))
        (conflict,) = store.read(query, after=1, limit=1)
        assert error.conflict == conflict
        assert (error.query, error.after, error.retry, error.code) == (
            query,
            1,
            "decide",
            "append_condition_failed",
        )
        assert "2" in str(error)
        assert error.hint

    def test_an_appends_own_events_do_not_conflict_with_its_condition(self, store: EventStore) -> None:
        never = AppendCondition(Query.tag("x"))
        assert store.append([happened("A", "x"), happened("A", "x")], never).count == 2

    def test_each_part_has_its_own_after(self, store: EventStore) -> None:
        store.append([happened("A", "a"), happened("A", "b"), happened("A", "a"), happened("A", "b")])
        a, b = Query.tag("a"), Query.tag("b")
        store.append(happened("A"), AppendCondition.all_of(nothing_new(a, 3), nothing_new(b, 4)))
        error = refusal(store, AppendCondition.all_of(nothing_new(a, 3), nothing_new(b, 3)))
        assert (error.conflict.position, error.query, error.after) == (4, b, 3)
        error = refusal(store, AppendCondition.all_of(nothing_new(a, 2), nothing_new(b, 4)))
        assert (error.conflict.position, error.query, error.after) == (3, a, 2)

    def test_the_first_part_that_fails_is_reported(self, store: EventStore) -> None:
        store.append([happened("A", "a"), happened("A", "b")])
        a, b = nothing_new(Query.tag("a")), nothing_new(Query.tag("b"))
        assert refusal(store, AppendCondition.all_of(b, a)).conflict.position == 2
        assert refusal(store, AppendCondition.all_of(a, b)).conflict.position == 1

    def test_parts_are_one_part_conditions(self) -> None:
        a, b = nothing_new(Query.tag("a"), 1), nothing_new(Query.tag("b"), 2)
        assert AppendCondition.all_of(a, b).parts == (a, b)
        assert AppendCondition.all_of(AppendCondition.all_of(a, b), a).parts == (a, b)
        assert a.parts == (a,)
        assert AppendCondition.all_of(a) == a

    def test_unconditional_appends_and_appends_under_other_conditions_count(self, store: EventStore) -> None:
        x = store.read(Query.tag("x")).condition
        store.append(happened("A", "x", "y"), nothing_new(Query.tag("y")))
        refusal(store, x)
        x = store.read(Query.tag("x")).condition
        store.append(happened("A", "x"))
        refusal(store, x)
        x = store.read(Query.tag("x")).condition
        store.append(happened("A", "x"), stream="s")
        refusal(store, x)

    def test_a_refused_append_does_not_refuse_the_next(self, store: EventStore) -> None:
        store.append(happened("A", "x"))
        for _ in range(3):
            refusal(store, nothing_new(Query.tag("x")))
        assert store.append(happened("A", "x"), store.read(Query.tag("x")).condition).position == 2

    def test_events_of_the_same_type_or_tag_elsewhere_do_not_conflict(self, store: EventStore) -> None:
        query = Query.of(item("a", "b", types=["A"]))
        for event in (happened("A", "a"), happened("A", "b"), happened("B", "a", "b"), happened("A")):
            store.append(event)
        assert store.append(happened("A", "a", "b"), nothing_new(query)).position == 5
        assert refusal(store, nothing_new(query)).conflict.position == 5

    def test_after_beyond_the_head_is_invalid(self, store: EventStore) -> None:
        store.append(happened("A"))
        with pytest.raises(InvalidInput) as caught:
            store.append(happened("A"), nothing_new(Query.tag("x"), 2))
        assert "head of this log is 1" in str(caught.value)
        assert caught.value.hint
        assert store.head() == 1
        assert not isinstance(caught.value, AppendConditionFailed)

    def test_after_beyond_the_head_is_judged_before_any_conflict(self, store: EventStore) -> None:
        store.append(happened("A", "x"))
        x, beyond = nothing_new(Query.tag("x")), nothing_new(Query.tag("x"), 9)
        for condition in (AppendCondition.all_of(x, beyond), AppendCondition.all_of(beyond, x)):
            with pytest.raises(InvalidInput, match="after is 9, but the head of this log is 1"):
                store.append(happened("A"), condition)
        assert store.stats().refused == 0

    def test_an_after_that_is_no_position_is_invalid(self, store: EventStore) -> None:
        for after in (-1, True, 1.0, "1", None):
            with pytest.raises(InvalidInput):
                AppendCondition(Query.all(), after=after)  # type: ignore[arg-type]
            with pytest.raises(InvalidInput):
                store.read(after=after)  # type: ignore[arg-type]

    def test_a_condition_on_all_is_refused_by_any_event(self, store: EventStore) -> None:
        read = store.read()
        store.append(happened("A"), read.condition)
        store.append(happened("A"), store.read().condition)
        assert refusal(store, read.condition).conflict.position == 1

    def test_a_callable_condition_decides_in_the_critical_section(self, store: EventStore) -> None:
        store.append([happened("A", "x", n=n) for n in range(5)])
        query = Query.of(item("x", where=lambda event: event.json()["n"] == 3))
        if is_refused(store, query):
            return
        assert refusal(store, nothing_new(query)).conflict.position == 4
        store.append(happened("B"), nothing_new(query, 4))

    def test_no_matcher_is_asked_beyond_the_first_match(self, store: EventStore) -> None:
        store.append([happened("A", "x") for _ in range(3)])
        asked: list[int] = []

        def is_first(event: SequencedEvent) -> bool:
            asked.append(event.position)
            return event.position == 1 or 1 / 0 > 0

        query = Query.of(item("x", where=is_first))
        if is_refused(store, query):
            return
        assert refusal(store, nothing_new(query)).conflict.position == 1
        assert store.exists(query)
        assert store.append(happened("B"), unless_exists=query).duplicate
        assert asked == [1, 1, 1]
