"""Which events a query matches."""

from __future__ import annotations

import pytest

from ... import Event, EventStore, Query, QueryItem
from ...errors import InvalidQuery
from .kit import happened, is_refused, item, positions

LOG = [
    Event("A", {"n": 1}, tags=["x"]),
    Event("A", {"n": 2}, tags=["x", "y"], stream="s", subject="u"),
    Event("B", {"n": 3}, tags=["y"], stream="s"),
    Event("B", {"n": 4}, tags=["x", "y", "z"], stream="t", subject="u"),
    Event("C", {"n": 5}, subject="v"),
    Event("C", {"n": 6}, tags=["z"], stream="t", subject="v", metadata={"by": "me"}),
]
EXPECTED: list[tuple[Query, list[int]]] = [
    (Query.all(), [1, 2, 3, 4, 5, 6]),
    (Query.of(QueryItem()), [1, 2, 3, 4, 5, 6]),
    (Query.user(), [1, 2, 3, 4, 5, 6]),
    (Query.types("A"), [1, 2]),
    (Query.types("A", "C"), [1, 2, 5, 6]),
    (Query.types("A", "A"), [1, 2]),
    (Query.types("Absent"), []),
    (Query.types("a"), []),
    (Query.tag("x"), [1, 2, 4]),
    (Query.tag("x", "y"), [2, 4]),
    (Query.tag("y", "x", "y"), [2, 4]),
    (Query.tag("x", "y", "z"), [4]),
    (Query.tag("x", "absent"), []),
    (Query.tag("absent"), []),
    (Query.tag("X"), []),
    (Query.of(item(exclude_types=["A"])), [3, 4, 5, 6]),
    (Query.of(item(exclude_types=["A", "C"])), [3, 4]),
    (Query.of(item("x", exclude_types=["A"])), [4]),
    (Query.of(item(types=["A", "B"], exclude_types=["A"])), [3, 4]),
    (Query.of(item("x", types=["A"])), [1, 2]),
    (Query.of(item("x", "y", types=["B", "C"])), [4]),
    (Query.stream("s"), [2, 3]),
    (Query.stream("absent"), []),
    (Query.subject("u"), [2, 4]),
    (Query.subject("v"), [5, 6]),
    (Query.of(item(stream="t", subject="u")), [4]),
    (Query.of(item(stream="s", subject="v")), []),
    (Query.of(item("y", types=["B"], stream="s")), [3]),
    (Query.of(item(types=["C"], subject="v", exclude_types=["A"])), [5, 6]),
    (Query.of(item(where={"n": {"$gte": 5}})), [5, 6]),
    (Query.of(item("x", where={"n": [1, 4]})), [1, 4]),
    (Query.of(item(stream="t", where={"$metadata": {"by": "me"}})), [6]),
    (Query.of(item(where=lambda event: event.type == "B")), [3, 4]),
    (Query.of(item("x"), item(types=["C"])), [1, 2, 4, 5, 6]),
    (Query.of(item("x", types=["A"]), item("y", types=["B"])), [1, 2, 3, 4]),
    (Query.of(item("z"), item("absent")), [4, 6]),
    (Query.of(item("x"), item("x", "y"), item("y")), [1, 2, 3, 4]),
    (Query.of(item(stream="s"), item(subject="v"), item("x", types=["A"])), [1, 2, 3, 5, 6]),
    (Query.of(item("x"), QueryItem()), [1, 2, 3, 4, 5, 6]),
    (Query.tag("x") & Query.tag("y"), [2, 4]),
    (Query.tag("x") | Query.stream("t"), [1, 2, 4, 6]),
    ((Query.tag("x") | Query.tag("z")) & Query.types("B", "C"), [4, 6]),
    (Query.of(item(where={"n": {"$gt": 1}})) & Query.of(item(where={"n": {"$lt": 4}})), [2, 3]),
]


class Matching:
    """What a query means, asked in every way a store can be asked."""

    @pytest.mark.parametrize(("query", "expected"), EXPECTED)
    def test_every_way_to_ask_gives_the_events_that_match(
        self, store: EventStore, query: Query, expected: list[int]
    ) -> None:
        store.append(LOG)
        if is_refused(store, query):
            return
        assert positions(store.read(query)) == expected
        assert positions(store.read(query, backwards=True)) == expected[::-1]
        assert positions(store.read(query, limit=2)) == expected[:2]
        assert positions(store.read(query, backwards=True, limit=1)) == expected[::-1][:1]
        assert positions(store.read(query, after=2, until=4)) == [n for n in expected if 2 < n <= 4]
        assert store.count(query) == len(expected)
        for after in range(7):
            assert store.exists(query, after) == any(n > after for n in expected)

    def test_an_event_that_two_items_match_comes_once(self, store: EventStore) -> None:
        store.append(happened("A", "x", "y"))
        query = Query.of(item("x"), item("y"), item(types=["A"]), item("x", "y"))
        assert positions(store.read(query)) == [1]
        assert store.count(query) == 1

    def test_a_tag_is_more_than_its_beginning(self, store: EventStore) -> None:
        store.append([happened("A", "course:1"), happened("A", "course:12"), happened("A", "course:")])
        assert positions(store.read(Query.tag("course:1"))) == [1]
        assert positions(store.read(Query.tag("course:"))) == [3]

    @pytest.mark.parametrize(
        "text",
        [
            "a,b",
            "a|b",
            'a"b',
            "a'b",
            "a\\b",
            "a%b_",
            "{a}",
            "a b",
            " a ",
            "é",
            "e\u0301",
            "日本",
            "😀",
            "\u2028",
            "NULL",
            "1",
            "[/x]",
            "stream:x",
            "x" * 256,
            "😀" * 256,
        ],
    )
    def test_any_text_is_only_itself(self, store: EventStore, text: str) -> None:
        odd = Event(text, {}, tags=[text], stream=text, subject=text)
        store.append([odd, happened("A", "a", "b", "x", "e", "n")])
        for query in (Query.tag(text), Query.types(text), Query.stream(text), Query.subject(text)):
            assert positions(store.read(query)) == [1]
        (event,) = store.read(limit=1)
        assert (event.type, event.tags, event.stream, event.subject) == (text, (text,), text, text)

    def test_a_type_a_tag_a_stream_and_a_subject_of_one_name_stay_apart(self, store: EventStore) -> None:
        store.append([Event("n", {}), Event("A", {}, tags=["n"]), Event("A", {}, stream="n")])
        store.append(Event("A", {}, subject="n"))
        queries = [Query.types("n"), Query.tag("n"), Query.stream("n"), Query.subject("n")]
        assert [positions(store.read(query)) for query in queries] == [[1], [2], [3], [4]]

    def test_a_tag_that_looks_like_a_stream_is_none(self, store: EventStore) -> None:
        store.append([happened("A", "stream:n", "subject:n"), Event("A", {}, stream="n", subject="n")])
        assert positions(store.read(Query.stream("n") | Query.subject("n"))) == [2]
        assert positions(store.read(Query.tag("stream:n"))) == [1]

    def test_reserved_tags_never_show(self, store: EventStore) -> None:
        store.append(Event("A", {}, tags=["x"], stream="s", subject="u"))
        (event,) = store.read()
        assert event.tags == ("x",)

    def test_queries_ask_with_names_that_no_event_has(self, store: EventStore) -> None:
        query = Query.of(item("never"), item(types=["Never"]), item(stream="never"), item(subject="never"))
        assert (list(store.read(query)), store.count(query), store.exists(query)) == ([], 0, False)
        store.append(happened("A", "x"))
        assert (list(store.read(query)), store.count(query), store.exists(query)) == ([], 0, False)

    def test_the_stores_own_events_match_only_all_and_their_type(self, store: EventStore) -> None:
        store.append(happened("A", "x"))
        store.retag([1], add=["y"])
        store.append(happened("A"))
        assert positions(store.read()) == [1, 2, 3]
        assert positions(store.read(Query.types("$retagged"))) == [2]
        assert positions(store.read(Query.of(item("y"), item(types=["$retagged"])))) == [1, 2]
        assert positions(store.read(Query.user())) == [1, 3]
        assert positions(store.read(Query.of(item(exclude_types=["A"])))) == []
        assert positions(store.read(Query.of(item(where={"changes": {"$ne": 1}})))) == [1, 3]
        assert positions(store.read(Query.of(item("y")))) == [1]
        assert store.count(Query.all()) == store.head() == 3

    def test_reserved_names_are_refused_in_queries_for_tags(self) -> None:
        with pytest.raises(InvalidQuery, match="reserved"):
            Query.tag("$stream:s")

    def test_a_query_without_items_cannot_be_asked(self) -> None:
        with pytest.raises(InvalidQuery) as caught:
            Query.of()
        assert caught.value.hint
