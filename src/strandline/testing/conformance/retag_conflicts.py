"""The conflict rule of retags: the query of a refused decision matches a retagged event before or after the retag."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ... import (
    AppendCondition,
    AppendRequest,
    AppendResult,
    Event,
    EventStore,
    Query,
    QueryItem,
    SequencedEvent,
)
from ...errors import AppendConditionFailed
from ...retag import Retag
from ..interference import interfering
from ..oracle import violations
from .kit import happened, is_refused, item, nothing_new, refusal

RETAGS = [
    # name, the tag before, the values after, whether it conflicts with Query.tag("k:in")
    ("neither", "k:out", ["other"], False),
    ("enters", "k:out", ["in"], True),
    ("leaves", "k:in", ["out"], True),
    ("stays", "k:in", ["in", "more"], True),
]


class RetagConflicts:
    """When a retag refuses a decision, and when not."""

    @pytest.mark.parametrize(("case", "before", "after", "conflicts"), RETAGS)
    def test_a_retag_conflicts_if_the_query_matches_the_event_before_or_after(
        self, store: EventStore, case: str, before: str, after: list[str], *, conflicts: bool
    ) -> None:
        store.append([happened("A"), happened("A"), happened("A", before)])
        decision = store.read(Query.tag("k:in")).condition
        store.retag([3], replace={"k": after})
        if not conflicts:
            assert store.append(happened("B"), decision).position == 5, case
            return
        error = refusal(store, decision)
        (retagged,) = store.read(Query.types("$retagged"))
        assert error.conflict == retagged
        assert (error.query, error.after) == (Query.tag("k:in"), 3)
        assert "3" in error.hint
        store.append(happened("B"), store.read(Query.tag("k:in")).condition)

    def test_tags_that_no_condition_asks_for_count_because_a_decision_may_have_seen_them(
        self, store: EventStore
    ) -> None:
        store.append(Event("Seat", {}, tags=["course:1"], stream="s", subject="u"))
        asked = [
            *(item("course:1"), item(types=["Seat"]), item(exclude_types=["Other"])),
            *(item(stream="s"), item(subject="u"), item(where={}), item(where=lambda event: True)),
            *(item("course:1", types=["Seat"], stream="s", subject="u", where={}), QueryItem()),
        ]
        queries = [Query.of(one) for one in asked]
        decisions = [nothing_new(query, 1) for query in queries if not is_refused(store, query)]
        store.retag([1], add=["vip"])
        for decision in decisions:
            assert refusal(store, decision).conflict.position == 2

    def test_a_decision_is_refused_if_an_event_moves_from_one_item_to_another(
        self, store: EventStore
    ) -> None:
        store.append(happened("Seat", "course:1"))
        seats = store.read(Query.of(item("course:1"), item("course:2")))
        assert not any("course:2" in event.tags for event in seats)
        store.retag([1], replace={"course": ["2"]})
        assert refusal(store, seats.condition).conflict.position == 2

    def test_a_decision_that_looked_at_other_tags_is_made_again(self, store: EventStore) -> None:
        store.append(happened("Account", "k:1"))
        seen: list[bool] = []

        def decide(events: Sequence[SequencedEvent]) -> list[Event]:
            seen.append(any("vip" in event.tags for event in events))
            return [happened("Served", "k:1")]

        with interfering(store, lambda: store.retag([1], add=["vip"])):
            assert store.decide(["k:1"], decide).position == 3
        assert seen == [False, True]
        assert violations(store) == []

    def test_unless_exists_asks_only_for_what_is_there_now(self, store: EventStore) -> None:
        store.append(happened("A", "k:1"))
        store.retag([1], replace={"k": ["2"]})
        assert not store.append(happened("B"), unless_exists=Query.tag("k:1")).duplicate
        assert store.append(happened("B"), unless_exists=Query.tag("k:2")).duplicate
        assert violations(store) == []

    def test_all_tags_of_an_item_count(self, store: EventStore) -> None:
        store.append(happened("A", "a:1"))
        both, one = store.read(Query.tag("a:1", "b:1")).condition, store.read(Query.tag("a:1")).condition
        store.retag([1], add=["c"])
        store.append(happened("B"), both)
        refusal(store, one)
        store.retag([1], add=["b:1"])
        refusal(store, both)
        store.retag([1], replace={"a": []})
        assert refusal(store, nothing_new(Query.tag("a:1", "b:1"), 4)).conflict.position == 5
        store.append(happened("B"), nothing_new(Query.tag("a:1", "b:1"), 5))

    def test_types_streams_subjects_and_payloads_count_too(self, store: EventStore) -> None:
        store.append(Event("A", {"n": 1}, tags=["k:1"], stream="s", subject="u"))
        queries = [
            (item("k:2", types=["A"]), True),
            (item("k:2", types=["B"]), False),
            (item("k:2", exclude_types=["B"]), True),
            (item("k:2", exclude_types=["A"]), False),
            (item("k:2", stream="s"), True),
            (item("k:2", stream="t"), False),
            (item("k:2", subject="u"), True),
            (item("k:2", subject="v"), False),
            (item("k:2", where={"n": 1}), True),
            (item("k:2", where={"n": 2}), False),
            (item("k:2", where=lambda event: event.json()["n"] == 1), True),
            (item("k:2", where=lambda event: event.json()["n"] == 2), False),
            (item("k:1", stream="s"), True),
            (item(stream="s"), True),
            (item(stream="t"), False),
            (item(types=["A"]), True),
            (item(types=["B"]), False),
            (item(where={"n": 1}), True),
            (item(where={"n": 2}), False),
        ]
        store.retag([1], replace={"k": ["2"]})
        for asked, conflicts in queries:
            condition = nothing_new(Query.of(asked), 1)
            if is_refused(store, Query.of(asked)):
                continue
            if conflicts:
                assert refusal(store, condition).conflict.position == 2
            else:
                store.append(happened("Other"), condition)

    def test_a_retag_the_reader_knew_of_does_not_conflict(self, store: EventStore) -> None:
        store.append(happened("A", "k:1"))
        at = store.retag([1], replace={"k": ["2"]}).position
        refusal(store, nothing_new(Query.tag("k:2"), at - 1))
        store.append(happened("B"), nothing_new(Query.tag("k:2"), at))

    def test_an_event_that_was_retagged_into_the_query_conflicts_itself_if_it_is_newer(
        self, store: EventStore
    ) -> None:
        store.append([happened("A"), happened("A", "k:1")])
        store.retag([2], replace={"k": ["2"]})
        assert refusal(store, nothing_new(Query.tag("k:2"), 1)).conflict.position == 2
        assert refusal(store, nothing_new(Query.tag("k:2"), 2)).conflict.position == 3

    def test_what_is_known_of_a_tag_is_forgotten_when_an_event_is_retagged_into_it(
        self, store: EventStore
    ) -> None:
        store.append(happened("A", "k:2"))
        store.append(happened("A", "k:1"))
        store.append(happened("B"), nothing_new(Query.tag("k:2"), 1))
        store.retag([2], replace={"k": ["2"]})
        assert refusal(store, nothing_new(Query.tag("k:2"), 1)).conflict.position == 2
        assert refusal(store, nothing_new(Query.tag("k:2"), 2)).conflict.position == 4

    def test_an_event_that_came_and_left_the_query_unseen_conflicts_by_its_retag(
        self, store: EventStore
    ) -> None:
        store.append(happened("A"))
        store.append(happened("A", "k:1"))
        store.retag([2], replace={"k": ["2"]})
        assert refusal(store, nothing_new(Query.tag("k:1"), 1)).conflict.position == 3
        store.append(happened("B"), nothing_new(Query.tag("k:1"), 3))

    def test_each_change_is_judged_with_the_tags_of_its_time(self, store: EventStore) -> None:
        store.append(happened("A", "k:1"))
        store.retag([1], replace={"k": ["2"]})
        store.retag([1], replace={"k": ["3"]})
        store.retag([1], replace={"k": ["1"]})
        expected = {"k:1": [2, 4, 4], "k:2": [2, 3], "k:3": [3, 3, 4]}
        for tag, conflicts in expected.items():
            for after, conflict in enumerate(conflicts, 1):
                assert refusal(store, nothing_new(Query.tag(tag), after)).conflict.position == conflict
        for tag, after in (("k:2", 3), ("k:3", 4), ("k:1", 4)):
            store.append(happened("B"), nothing_new(Query.tag(tag), after))

    def test_the_hint_names_the_event_that_was_retagged(self, store: EventStore) -> None:
        store.append([happened("A", "k:1") for _ in range(700)])
        store.append([happened("A", "k:1", "z") for _ in range(700)])
        store.retag(Query.tag("k:1"), replace={"k": ["2"]})
        error = refusal(store, nothing_new(Query.tag("z", "k:2"), 1_400))
        assert error.conflict.position == 1_401
        assert "701" in error.hint

    def test_each_of_several_retagged_events_is_judged(self, store: EventStore) -> None:
        store.append([happened("A", "k:1") for _ in range(1_000)])
        store.append(happened("A", "k:1", "last"))
        store.retag(Query.tag("k:1"), replace={"k": ["2"]})
        error = refusal(store, nothing_new(Query.tag("k:1", "last"), 1_001))
        assert error.conflict.position == 1_003
        assert "1001" in error.hint

    def test_an_earlier_event_is_reported_before_a_later_retag(self, store: EventStore) -> None:
        store.append(happened("A", "k:1"))
        store.append(happened("A", "k:2"))
        store.retag([1], replace={"k": ["2"]})
        store.append(happened("A", "k:2"))
        assert refusal(store, nothing_new(Query.tag("k:2"), 1)).conflict.position == 2
        assert refusal(store, nothing_new(Query.tag("k:2"), 2)).conflict.position == 3
        assert refusal(store, nothing_new(Query.tag("k:2"), 3)).conflict.position == 4

    def test_each_part_is_judged_against_retags(self, store: EventStore) -> None:
        store.append([happened("A", "k:1"), happened("A", "x")])
        condition = AppendCondition.all_of(nothing_new(Query.tag("x"), 2), nothing_new(Query.tag("k:1"), 2))
        store.retag([1], replace={"k": []})
        error = refusal(store, condition)
        assert (error.conflict.position, error.query) == (3, Query.tag("k:1"))

    def test_a_condition_on_all_or_on_retags_is_refused_by_any_retag(self, store: EventStore) -> None:
        store.append(happened("A"))
        queries = (Query.all(), Query.types("$retagged"), Query.user())
        conditions = [store.read(query).condition for query in queries]
        store.retag([1], add=["x"])
        for condition in conditions:
            assert refusal(store, condition).conflict.position == 2

    def test_a_retag_in_one_transaction_with_appends_counts_as_there(self, store: EventStore) -> None:
        store.append([happened("A", "k:1"), happened("A", "k:2")])
        stale = AppendCondition(Query.tag("k:1"), after=2)
        outcomes = store.sequencer.run(
            [
                AppendRequest(happened("B", "k:2"), stale),
                Retag([1, 3], replace={"k": ["9"]}),
                AppendRequest(happened("C"), nothing_new(Query.tag("k:1"), 3)),
                AppendRequest(happened("C"), nothing_new(Query.tag("k:9"), 3)),
                AppendRequest(happened("C"), nothing_new(Query.tag("k:9"), 4)),
                AppendRequest(happened("D"), unless_exists=Query.tag("k:9")),
                Retag(Query.tag("k:9"), replace={"k": ["1"]}),
                AppendRequest(happened("C"), nothing_new(Query.tag("k:9"), 5)),
                AppendRequest(happened("C"), nothing_new(Query.tag("k:1"), 5)),
            ]
        )
        conflicts = [
            outcome.conflict.position if isinstance(outcome, AppendConditionFailed) else None
            for outcome in outcomes
        ]
        assert conflicts == [None, None, 4, 4, None, None, None, 6, 6]
        assert outcomes[5] == AppendResult(1, 2, 2, duplicate=True)
        assert [event.tags for event in store.read(until=3)] == [("k:1",), ("k:2",), ("k:1",)]
        assert store.head() == 6
        assert violations(store) == []

    def test_decisions_after_0_are_refused_by_retags_as_well(self, store: EventStore) -> None:
        store.append(happened("A", "k:1"))
        store.retag([1], replace={"k": []})
        assert refusal(store, nothing_new(Query.tag("k:1"))).conflict.position == 2
        store.append(happened("B"), unless_exists=Query.tag("k:1"))
