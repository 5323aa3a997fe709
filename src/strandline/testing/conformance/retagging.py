"""Retags: changes of tags that are in the log."""

from __future__ import annotations

from typing import Any

import pytest

from ... import AppendCondition, AppendConditionFailed, AppendResult, Event, EventStore, Query
from ...errors import InvalidInput, InvalidQuery
from .kit import happened, is_refused, item, positions


def changes(store: EventStore) -> list[list[dict[str, Any]]]:
    """What the `$retagged` events of the log list, event by event."""
    return [event.json()["changes"] for event in store.read(Query.types("$retagged"))]


def change(position: int, removed: list[str], added: list[str]) -> dict[str, Any]:
    """One listed change."""
    return {"position": position, "removed": removed, "added": added}


class Retagging:
    """What a retag changes, and what it writes."""

    @pytest.fixture
    def school(self, store: EventStore) -> EventStore:
        """Three subscriptions of two students."""
        store.append(
            [
                happened("Subscribed", "course:1", "student:s1"),
                happened("Subscribed", "course:2", "student:s1"),
                happened("Subscribed", "course:1", "student:s2"),
                happened("Closed"),
            ]
        )
        return store

    def test_add_gives_events_more_tags(self, school: EventStore) -> None:
        result = school.retag([1, 4], add=["vip", "a"])
        assert (result, result.changed) == (AppendResult(5, 5, 1), 2)
        assert [event.tags for event in school.read(Query.tag("vip"))] == [
            ("a", "course:1", "student:s1", "vip"),
            ("a", "vip"),
        ]
        assert changes(school) == [[change(1, [], ["a", "vip"]), change(4, [], ["a", "vip"])]]

    def test_replace_swaps_all_tags_of_a_prefix(self, school: EventStore) -> None:
        school.retag(Query.tag("student:s1"), replace={"student": ["s9", "s8"]})
        assert positions(school.read(Query.tag("student:s1"))) == []
        assert positions(school.read(Query.tag("student:s8", "student:s9"))) == [1, 2]
        assert changes(school) == [
            [
                change(1, ["student:s1"], ["student:s8", "student:s9"]),
                change(2, ["student:s1"], ["student:s8", "student:s9"]),
            ]
        ]

    def test_replace_leaves_events_without_the_prefix_alone(self, school: EventStore) -> None:
        school.retag(Query.all(), replace={"student": ["s9"]})
        assert positions(school.read(Query.tag("student:s9"))) == [1, 2, 3]
        assert next(iter(school.read(after=3))).tags == ()

    def test_replace_by_nothing_removes(self, school: EventStore) -> None:
        school.retag(Query.all(), replace={"student": []})
        assert [event.tags for event in school.read(until=4)] == [
            ("course:1",),
            ("course:2",),
            ("course:1",),
            (),
        ]
        assert not school.exists(Query.tag("student:s1") | Query.tag("student:s2"))

    def test_replace_takes_only_whole_prefixes(self, store: EventStore) -> None:
        store.append(happened("A", "student", "student:", "student:1", "students:1"))
        store.retag([1], replace={"student": ["2"]})
        (event,) = store.read(limit=1)
        assert event.tags == ("student", "student:2", "students:1")

    def test_replace_and_add_go_together(self, school: EventStore) -> None:
        school.retag([1], replace={"student": ["s3"], "course": []}, add=["merged"])
        (event,) = school.read(limit=1)
        assert event.tags == ("merged", "student:s3")
        assert changes(school) == [[change(1, ["course:1", "student:s1"], ["merged", "student:s3"])]]

    def test_what_would_not_change_is_not_listed(self, school: EventStore) -> None:
        school.retag(Query.all(), replace={"student": ["s2"]})
        assert [entry["position"] for entry in changes(school)[0]] == [1, 2]
        school.retag([1], replace={"course": ["1", "7"]})
        assert changes(school)[1] == [change(1, [], ["course:7"])]

    def test_no_change_writes_nothing(self, school: EventStore) -> None:
        for result in (
            school.retag([1], add=["course:1"]),
            school.retag(Query.tag("absent"), add=["x"]),
            school.retag([4], replace={"student": ["s1"]}),
            school.retag([], add=["x"]),
        ):
            assert (result.count, result.changed, result.position, school.head()) == (0, 0, 4, 4)
        assert len(list(school.appends())) == 1

    def test_it_tells_how_many_events_it_changed(self, store: EventStore) -> None:
        store.append([happened("A", "x") for _ in range(1_002)])
        result = store.retag(Query.tag("x"), add=["y"])
        assert (result.changed, result.count) == (1_002, 2)
        assert store.retag([1, 2, 1], add=["z"]).changed == 2
        assert store.append(happened()).changed == 0

    def test_one_position_may_be_given_alone_and_twice(self, school: EventStore) -> None:
        assert school.retag(1, add=["x"]).count == 1
        school.retag([3, 2, 3], add=["y"])
        assert [entry["position"] for entry in changes(school)[1]] == [2, 3]

    def test_a_retagged_event_is_a_system_event_without_tags(self, school: EventStore) -> None:
        school.retag([1], add=["x"])
        (event,) = school.read(after=4)
        assert (event.type, event.tags, event.stream, event.subject) == ("$retagged", (), None, None)
        assert event.id.version == 7

    def test_everything_else_of_an_event_stays(self, store: EventStore) -> None:
        store.append(Event("A", b"\xff", tags=["x"], stream="s", subject="u", metadata={"by": "me"}))
        (before,) = store.read()
        store.retag([1], add=["y"])
        (after,) = store.read(limit=1)
        assert after == before.with_present_tags(("x", "y"))
        assert positions(store.read(Query.of(item("y", stream="s", subject="u")))) == [1]

    def test_every_way_to_ask_sees_the_present_tags(self, school: EventStore) -> None:
        school.retag([1], replace={"student": ["s9"]})
        new, old = Query.tag("student:s9", "course:1"), Query.tag("student:s1", "course:1")
        assert (school.count(new), school.count(old)) == (1, 0)
        assert (school.exists(new), school.exists(old), school.exists(new, 1)) == (True, False, False)
        assert positions(school.read(new, backwards=True)) == [1]
        assert positions(school.read(Query.tag("student:s1"), backwards=True)) == [2]

    def test_tags_may_go_and_come_back(self, school: EventStore) -> None:
        school.retag([1], replace={"student": ["s9"]})
        school.retag([1], replace={"student": ["s1"]})
        assert positions(school.read(Query.tag("student:s1"))) == [1, 2]
        assert changes(school)[1] == [change(1, ["student:s9"], ["student:s1"])]

    @pytest.mark.parametrize("missing", [0, 5, 10**9])
    def test_unknown_positions_are_invalid(self, school: EventStore, missing: int) -> None:
        with pytest.raises(InvalidInput, match=str(missing)):
            school.retag([1, missing], add=["x"])
        assert (school.head(), school.exists(Query.tag("x"))) == (4, False)

    def test_the_stores_own_events_keep_their_tags(self, school: EventStore) -> None:
        school.retag([1], add=["x"])
        with pytest.raises(InvalidInput, match="retagged"):
            school.retag([1, 5], add=["y"])
        assert (school.head(), school.exists(Query.tag("y"))) == (5, False)
        assert school.retag(Query.all(), add=["z"]) == AppendResult(6, 6, 1)
        assert positions(school.read(Query.tag("z"))) == [1, 2, 3, 4]

    @pytest.mark.parametrize(
        "arguments",
        [
            {},
            {"add": []},
            {"replace": {}},
            {"add": "x"},
            {"add": ["$x"]},
            {"add": [""]},
            {"add": [1]},
            {"add": ["x" * 257]},
            {"replace": ["student"]},
            {"replace": {"student": "s2"}},
            {"replace": {"$stream": ["s"]}},
            {"replace": {"": ["s"]}},
            {"replace": {"student": ["x" * 250]}},
        ],
    )
    def test_bad_tags_are_refused(self, school: EventStore, arguments: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput):
            school.retag([1], **arguments)
        assert school.head() == 4

    @pytest.mark.parametrize("target", ["1", [-1], [True], [1.0], None, ["x"]])
    def test_targets_are_a_query_or_positions(self, school: EventStore, target: Any) -> None:
        with pytest.raises(InvalidInput):
            school.retag(target, add=["x"])
        assert school.head() == 4

    def test_no_event_gets_more_than_64_tags(self, store: EventStore) -> None:
        store.append([happened("A"), Event("A", {}, tags=[f"t:{n}" for n in range(64)])])
        with pytest.raises(InvalidInput, match="65"):
            store.retag([1, 2], add=["one:more"])
        assert (store.head(), store.exists(Query.tag("one:more"))) == (2, False)
        store.retag([2], replace={"t": []}, add=["one:more"])
        assert positions(store.read(Query.tag("one:more"))) == [2]

    def test_a_condition_whose_callable_looks_at_tags_notices_a_retag(self, school: EventStore) -> None:
        important = Query.of(item(where=lambda event: "vip" in event.tags))
        if is_refused(school, important):
            return
        after = school.read(important).head
        school.retag([1], add=["vip"])
        school.retag([2], add=["slow"])
        with pytest.raises(AppendConditionFailed) as refused:
            school.append(happened("Closed"), AppendCondition(important, after))
        assert refused.value.conflict.position == after + 1
        assert school.append(happened("Closed"), AppendCondition(important, after + 1)).count == 1
        school.retag([1], add=["slow"])  # it is important before and after
        with pytest.raises(AppendConditionFailed):
            school.append(happened("Closed"), AppendCondition(important, after + 3))
        school.retag([2], add=["old"])  # it never is
        school.append(happened("Closed"), AppendCondition(important, after + 4))
        both = important & Query.of(item("course:1", where={"n": {"$ne": 1}}))
        assert positions(school.read(both)) == positions(school.read(important)) == [1]

    def test_a_callable_that_raises_fails_the_retag(self, school: EventStore) -> None:
        query = Query.of(item(where=lambda event: event.no_such_attribute))
        if is_refused(school, query):
            return
        with pytest.raises(InvalidQuery):
            school.retag(query, add=["x"])
        assert school.head() == 4

    def test_where_and_streams_choose_what_is_retagged(self, store: EventStore) -> None:
        store.append([happened("A", "x", n=n) for n in range(4)], stream="s")
        store.append(happened("A", "x", n=2))
        store.retag(Query.of(item("x", stream="s", where={"n": {"$gte": 2}})), add=["late"])
        assert positions(store.read(Query.tag("late"))) == [3, 4]

    def test_more_than_1_000_changes_are_several_events_of_one_append(self, store: EventStore) -> None:
        store.append([happened("A", "x:1") for _ in range(2_500)])
        assert store.retag(Query.tag("x:1"), replace={"x": ["2"]}) == AppendResult(2_501, 2_503, 3)
        listed = changes(store)
        assert [len(entries) for entries in listed] == [1_000, 1_000, 500]
        assert [entry["position"] for entries in listed for entry in entries] == list(range(1, 2_501))
        assert (store.count(Query.tag("x:1")), store.count(Query.tag("x:2"))) == (0, 2_500)
        assert [(append.first, append.last) for append in store.appends(after=1)] == [(2_501, 2_503)]
        assert len({event.recorded_at for event in store.read(after=2_500)}) == 1
        assert positions(store.read(Query.tag("x:2"))) == list(range(1, 2_501))

    def test_a_retag_is_recorded_as_unconditional(self, school: EventStore) -> None:
        school.retag([1], add=["x"])
        *_, append = school.appends()
        assert (append.first, append.last, append.condition, append.status) == (5, 5, None, "unconditional")
