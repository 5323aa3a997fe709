"""Looking at a log: single events, counts, and dry runs of conditions."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from ... import (
    AppendCondition,
    AppendConditionFailed,
    Event,
    EventStore,
    Query,
    QueryItem,
    RecordedAppend,
    SequencedEvent,
    Usage,
)
from ...errors import InvalidInput, NotFound
from .kit import happened, is_refused, item, nothing_new, positions, refusal


class Looking:
    """Questions that change nothing."""

    def test_an_event_is_found_by_its_position_and_by_its_id(self, store: EventStore) -> None:
        events = [happened("A", "x", n=n) for n in range(3)]
        store.append(events)
        listed = list(store.read())
        assert [store.event(position) for position in (1, 2, 3)] == listed
        assert [store.event(event.id) for event in events] == listed

    def test_an_event_has_its_present_tags(self, store: EventStore) -> None:
        event = happened("A", "x:1")
        store.append(event)
        store.retag(1, replace={"x": ["2"]})
        assert store.event(1).tags == store.event(event.id).tags == ("x:2",)
        assert store.event(2).type == "$retagged"

    @pytest.mark.parametrize("which", [0, 2, 2**70, UUID(int=7)])
    def test_an_event_that_is_not_there_is_not_found(self, store: EventStore, which: int | UUID) -> None:
        store.append(happened())
        with pytest.raises(NotFound) as caught:
            store.event(which)
        assert caught.value.hint

    @pytest.mark.parametrize("which", [-1, True, 1.0, "1", None, b"x" * 16, str(UUID(int=7))])
    def test_an_event_is_asked_for_by_position_or_uuid(self, store: EventStore, which: Any) -> None:
        store.append(happened())
        with pytest.raises(InvalidInput):
            store.event(which)

    @pytest.mark.parametrize(
        "query",
        [
            None,
            Query.all(),
            Query.user(),
            Query.types("A"),
            Query.tag("x"),
            Query.tag("x", "y"),
            Query.of(item("x", types=["B"]), item("y")),
            Query.of(item(types=["A"], where={"n": {"$gt": 3}})),
            Query.of(item(where=lambda event: event.type == "A")),
        ],
    )
    def test_a_count_can_begin_after_a_position(self, store: EventStore, query: Query | None) -> None:
        store.append([happened("AB"[n % 2], *["x", "y", "z"][n % 3 :], n=n) for n in range(12)])
        store.retag(3, add=["y"])
        if query is not None and is_refused(store, query):
            return
        for after in (0, 1, 5, 12, 13, 14, 2**70):
            assert store.count(query, after) == len(list(store.read(query, after=after)))
            assert store.count(query, after=after) == store.count(query, after)

    @pytest.mark.parametrize("after", [-1, True, 1.5, "1"])
    def test_a_count_begins_after_a_position(self, store: EventStore, after: Any) -> None:
        with pytest.raises(InvalidInput):
            store.count(after=after)


class DryRuns:
    """What `check` says is what `append` would do."""

    def test_a_condition_that_holds_is_renewed_up_to_the_head(self, store: EventStore) -> None:
        store.append([happened("A", "x"), happened("B", "y")])
        condition = AppendCondition.all_of(
            nothing_new(Query.tag("x"), 1), nothing_new(Query.types("C")), nothing_new(Query.tag("y"), 2)
        )
        check = store.check(condition)
        assert (check.holds, check.head, check.conflicts, check.complete) == (True, 2, (), True)
        assert (check.conflict, check.part, check.item) == (None, None, None)
        queries = Query.tag("x"), Query.types("C"), Query.tag("y")
        assert check.condition == AppendCondition.all_of(*(nothing_new(query, 2) for query in queries))
        assert store.head() == 2

    def test_a_condition_that_fails_tells_the_conflict_of_the_append(self, store: EventStore) -> None:
        store.append([happened("A", "y"), happened("B", "x"), happened("A", "x"), happened("C", "y")])
        query = Query.of(item("absent"), item("x", types=["A"]), item("x"))
        condition = AppendCondition.all_of(nothing_new(Query.tag("y"), 4), nothing_new(query, 1))
        check, error = store.check(condition), refusal(store, condition)
        assert (check.holds, check.head, check.part, check.item) == (False, 4, 1, 2)
        assert check.conflict == error.conflict == store.event(2)
        assert error.part == condition.parts[1]
        # A server adds what an append that it refused needs to decide again.
        of_server = check.conflicts, check.complete, check.condition
        assert (error.conflicts, error.complete, error.condition) in (((), False, None), of_server)
        assert positions(check.conflicts) == [2, 3]
        assert check.complete

    def test_conflicts_are_those_of_all_parts_in_the_order_of_the_log(self, store: EventStore) -> None:
        store.append([happened("A", "x", "y"), happened("A", "y"), happened("A", "x"), happened("A", "y")])
        condition = AppendCondition.all_of(nothing_new(Query.tag("x"), 1), nothing_new(Query.tag("y")))
        check = store.check(condition)
        assert (check.part, check.conflict) == (0, store.event(3))
        assert positions(check.conflicts) == [1, 2, 3, 4]
        assert isinstance(check.condition, AppendCondition)
        store.append(happened(), check.condition)

    @pytest.mark.parametrize(("most", "complete"), [(0, False), (1, False), (2, False), (3, True), (4, True)])
    def test_conflicts_are_limited(self, store: EventStore, most: int, complete: object) -> None:
        store.append([happened("A", "x") for _ in range(3)])
        check = store.check(nothing_new(Query.tag("x")), conflicts=most)
        assert positions(check.conflicts) == [1, 2, 3][:most]
        assert check.complete is complete
        assert check.conflict == store.event(1)
        assert check.condition == nothing_new(Query.tag("x"), 3)

    def test_without_a_limit_there_are_20(self, store: EventStore) -> None:
        store.append([happened() for _ in range(21)])
        assert positions(store.check(nothing_new(Query.all())).conflicts) == [*range(1, 21)]

    def test_after_a_retag_there_is_no_renewed_condition(self, store: EventStore) -> None:
        store.append([happened("A", "x:1"), happened("A", "y")])
        store.retag(1, replace={"x": ["2"]})
        for query in (Query.tag("x:1"), Query.tag("x:2")):
            condition = nothing_new(query, 2)
            check = store.check(condition)
            assert (check.holds, check.conflict, check.item) == (
                False,
                refusal(store, condition).conflict,
                None,
            )
            assert (positions(check.conflicts), check.complete, check.condition) == ([3], False, None)

    def test_a_retag_spoils_the_condition_even_if_another_part_fails_first(self, store: EventStore) -> None:
        store.append([happened("A", "x:1"), happened("A", "y")])
        store.retag(1, replace={"x": ["2"]})
        check = store.check(
            AppendCondition.all_of(nothing_new(Query.tag("y"), 1), nothing_new(Query.tag("x:1"), 1))
        )
        assert (check.part, check.item, check.conflict) == (0, 0, store.event(2))
        assert (positions(check.conflicts), check.complete, check.condition) == ([2, 3], False, None)

    def test_a_query_for_retags_sees_them_as_events(self, store: EventStore) -> None:
        store.append(happened("A", "x"))
        store.retag(1, add=["y"])
        check = store.check(nothing_new(Query.types("$retagged"), 1))
        assert (check.item, check.complete) == (0, True)
        assert check.condition == nothing_new(Query.types("$retagged"), 2)

    @pytest.mark.parametrize(
        "where", [{"n": {"$gte": 700}}, lambda event: event.json()["n"] >= 700], ids=["object", "callable"]
    )
    def test_a_filter_on_the_data_is_asked(self, store: EventStore, where: Any) -> None:
        store.append([happened("A", "x", n=n) for n in range(710)])
        query = Query.of(QueryItem(tags=["x"], where=where))
        if is_refused(store, query):
            return
        check = store.check(nothing_new(query), conflicts=3)
        assert positions(check.conflicts) == [701, 702, 703]
        assert not check.complete

    def test_a_position_beyond_the_head_is_refused_as_by_an_append(self, store: EventStore) -> None:
        store.append(happened("A", "x"))
        with pytest.raises(InvalidInput, match="after is 7, but the head of this log is 1"):
            store.check(nothing_new(Query.tag("x"), 7))
        both = AppendCondition.all_of(nothing_new(Query.tag("x")), nothing_new(Query.tag("y"), 7))
        for condition in (both, AppendCondition.all_of(*reversed(both.parts))):
            with pytest.raises(InvalidInput, match="after is 7, but the head of this log is 1"):
                store.check(condition)
            with pytest.raises(InvalidInput, match="after is 7, but the head of this log is 1"):
                store.append(happened("A"), condition)

    @pytest.mark.parametrize("condition", [None, Query.all(), 0, {"after": 0}])
    def test_only_conditions_are_checked(self, store: EventStore, condition: Any) -> None:
        with pytest.raises(InvalidInput):
            store.check(condition)

    @pytest.mark.parametrize("conflicts", [-1, True, 1.5, "1", None, 10_001])
    def test_how_many_conflicts_is_a_whole_number(self, store: EventStore, conflicts: Any) -> None:
        with pytest.raises(InvalidInput):
            store.check(nothing_new(Query.all()), conflicts=conflicts)

    def test_every_refusal_says_which_part_failed(self, store: EventStore) -> None:
        store.append([happened("A", "x", n=1), happened("A", "y", n=2)])
        by_data = Query.of(item("y", where={"n": 2}))
        for query in (Query.tag("y"), by_data, Query.of(item(where=lambda event: "y" in event.tags))):
            if is_refused(store, query):
                continue
            parts = nothing_new(Query.tag("x"), 1), nothing_new(query, 1)
            outcome = refusal(store, AppendCondition.all_of(*parts))
            assert isinstance(outcome, AppendConditionFailed)
            assert outcome.part == parts[1]
            assert isinstance(outcome.conflict, SequencedEvent)


class Catalogues:
    """Which types and tags a log has, and its appends in either direction."""

    def test_types_are_listed_in_the_order_of_their_names(self, store: EventStore) -> None:
        assert store.inspect.types() == store.inspect.tags() == []
        store.append([happened("b", "x"), happened("a"), happened("b"), happened("é"), happened("Z")])
        store.retag(2, add=["x"])
        assert store.inspect.types() == [
            Usage("$retagged", 1, 6, 6),
            Usage("Z", 1, 5, 5),
            Usage("a", 1, 2, 2),
            Usage("b", 2, 1, 3),
            Usage("é", 1, 4, 4),
        ]
        assert len(store.inspect.types()) == store.stats().types

    def test_tags_are_those_that_events_carry_now(self, store: EventStore) -> None:
        store.append([happened("A", "x:1", "y"), happened("A", "x:1"), happened("x:2", "x:3")])
        store.append(Event("A", {}, tags=["x:1"], stream="s", subject="u"))
        store.retag(1, replace={"x": ["0"]})
        store.retag(3, replace={"x": []})
        assert store.inspect.tags() == [Usage("x:0", 1, 1, 1), Usage("x:1", 2, 2, 4), Usage("y", 1, 1, 1)]
        assert len(store.inspect.tags()) == store.stats().tags

    def test_names_come_in_pages(self, store: EventStore) -> None:
        names = sorted({*"!#%&Aaz", "a:1", "a:10", "a:2", "aa", "é", "\U0010ffff", " "})
        store.append([Event(name, {}, tags=[name], stream=f"s{n}") for n, name in enumerate(names)])
        for listed in (store.inspect.types, store.inspect.tags):
            assert [usage.name for usage in listed()] == names
            for size in (1, 3, len(names), 100):
                pages, after = list[str](), ""
                while page := listed(after=after, limit=size):
                    assert len(page) <= size
                    pages += [usage.name for usage in page]
                    after = pages[-1]
                assert pages == names
            assert [usage.name for usage in listed("a")] == ["a", "a:1", "a:10", "a:2", "aa"]
            assert [usage.name for usage in listed("a:", after="a:1", limit=1)] == ["a:10"]
            assert [usage.name for usage in listed("a", after="Z")] == ["a", "a:1", "a:10", "a:2", "aa"]
            assert listed("a", after="b") == listed("absent") == []

    def test_the_stores_own_tags_are_not_listed(self, store: EventStore) -> None:
        store.append([Event("A", {}, stream=f"s{n}", subject=f"u{n}") for n in range(5)])
        assert store.inspect.tags() == store.inspect.tags("$") == store.inspect.tags("$stream:") == []
        assert store.inspect.types("$") == []

    def test_many_names_are_counted(self, store: EventStore) -> None:
        for start in range(0, 6_000, 2_000):
            events = [Event(f"T{n % 7}", {}, tags=[f"t:{n % 150:03}"]) for n in range(start, start + 2_000)]
            store.append(events)
        tags = store.inspect.tags("t:", limit=200)
        assert tags == [Usage(f"t:{n:03}", 40, n + 1, 150 * 39 + n + 1) for n in range(150)]
        assert [usage.count for usage in store.inspect.types()] == [858, *[857] * 6]

    @pytest.mark.parametrize("name", [1, None, "a\nb", "x" * 257, "\ud800", b"x"])
    def test_prefixes_are_like_names(self, store: EventStore, name: Any) -> None:
        for listed in (store.inspect.types, store.inspect.tags):
            with pytest.raises(InvalidInput):
                listed(name)
            with pytest.raises(InvalidInput):
                listed(after=name)

    @pytest.mark.parametrize("limit", [0, -1, True, 1.5, "1", None])
    def test_a_page_of_names_has_at_least_one(self, store: EventStore, limit: Any) -> None:
        for listed in (store.inspect.types, store.inspect.tags):
            with pytest.raises(InvalidInput):
                listed(limit=limit)

    def test_appends_are_listed_backwards_too(self, store: EventStore) -> None:
        for n in range(1, 5):
            store.append([happened() for _ in range(n)], nothing_new(Query.tag("x")))
        forwards = list(store.appends())
        assert [append.first for append in forwards] == [1, 2, 4, 7]
        assert list(store.appends(backwards=True)) == forwards[::-1]
        for after in range(9):
            expected = [append for append in forwards if append.first > after]
            assert list(store.appends(after, backwards=True)) == expected[::-1]
            assert list(store.appends(after, limit=2)) == expected[:2]
            assert list(store.appends(after, backwards=True, limit=2)) == expected[::-1][:2]
            for until in (0, 2, 3, 4, 7, 99):
                bounded = [append for append in expected if append.first <= until]
                assert list(store.appends(after, until=until)) == bounded
                assert list(store.appends(after, until=until, backwards=True, limit=2)) == bounded[::-1][:2]

    @pytest.mark.parametrize("limit", [0, -1, True, 1.5, "1"])
    def test_appends_are_limited_by_a_whole_number(self, store: EventStore, limit: Any) -> None:
        with pytest.raises(InvalidInput):
            store.appends(limit=limit)

    def test_the_append_of_an_event_is_found(self, store: EventStore) -> None:
        store.append([happened(), happened()])
        store.append([happened("A", "x"), happened()], nothing_new(Query.tag("x")))
        first, second = store.appends()
        assert [store.inspect.recorded(position) for position in (1, 2, 3, 4)] == [first] * 2 + [second] * 2
        for position in (0, 5, 2**70):
            with pytest.raises(NotFound):
                store.inspect.recorded(position)
        for bad in (-1, True, "1", None):
            with pytest.raises(InvalidInput):
                store.inspect.recorded(bad)  # type: ignore[arg-type]

    def test_recorded_appends_have_a_json_form(self, store: EventStore) -> None:
        store.append(happened())
        store.append(happened(), nothing_new(Query.of(item("x", where={"n": 1})), 1))
        store.append(
            happened(), AppendCondition.all_of(nothing_new(Query.tag("y"), 1), nothing_new(Query.all(), 2))
        )
        query = Query.of(item("x", where=lambda event: True))
        if not is_refused(store, query):
            store.append(happened(), nothing_new(query))
        for append in store.appends():
            assert RecordedAppend.from_json(append.to_json()) == append
            assert RecordedAppend.from_json(append.to_json().encode()).to_json() == append.to_json()
        for bad in ("", "[]", "{}", '{"first": 1}', next(store.appends()).to_json().replace("1", '"1"')):
            with pytest.raises(InvalidInput):
                RecordedAppend.from_json(bad)


class Lists:
    """Reads in lists of events."""

    def test_pages_are_lists_of_the_events(self, store: EventStore) -> None:
        assert list(store.read().pages()) == []
        for _ in range(3):
            store.append([happened("A", "x") for _ in range(1_500)])
        read = store.read(Query.tag("x"))
        pages = list(read.pages())
        assert [event for page in pages for event in page] == list(read)
        assert all(1 <= len(page) <= 2_000 for page in pages)
        assert list(read.pages()) == pages
        assert [len(page) for page in store.read(limit=3).pages()] == [3]

    def test_pages_of_large_events_are_shorter(self, store: EventStore) -> None:
        large = "x" * 1_000_000
        for _ in range(2):
            store.append([happened("A", n=large) for _ in range(10)])
        pages = list(store.read().pages())
        assert [event.position for page in pages for event in page] == [*range(1, 21)]
        assert all(1 <= len(page) <= 8 for page in pages)
