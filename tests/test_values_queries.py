"""Queries and conditions as values: joining, keys, JSON form, equality."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline import (
    AppendCondition,
    AppendRequest,
    Event,
    InvalidEvent,
    InvalidInput,
    InvalidQuery,
    Query,
    QueryItem,
)
from strandline.partition import stream_for
from strandline.testing import strategies

TYPES, TAGS = st.sampled_from("ABC"), st.sampled_from("xyz")
STREAMS, SUBJECTS = st.sampled_from("st"), st.sampled_from("uv")
ITEMS = strategies.query_items(types=TYPES, tags=TAGS, streams=STREAMS, subjects=SUBJECTS)
QUERIES = strategies.queries(ITEMS)
EVENTS = strategies.events(
    types=TYPES, tags=TAGS, streams=STREAMS, subjects=SUBJECTS, data=strategies.payloads()
)


@given(QUERIES, QUERIES, EVENTS)
def test_or_matches_what_either_matches(left: Query, right: Query, event: Event) -> None:
    assert (left | right).matches(event) == (left.matches(event) or right.matches(event))


@given(QUERIES, QUERIES, EVENTS)
def test_and_matches_what_both_match(left: Query, right: Query, event: Event) -> None:
    both = left.matches(event) and right.matches(event)
    try:
        joined = left & right
    except InvalidQuery:
        assert not both
    else:
        assert joined.matches(event) == both


@given(QUERIES)
def test_all_is_neutral_for_and_and_absorbs_in_or(query: Query) -> None:
    assert Query.all() & query == query
    assert query & Query.all() == query
    assert Query.all() | query == Query.all()
    assert query | query == query


@given(strategies.queries())
def test_the_json_form_of_a_query_reads_back_as_itself(query: Query) -> None:
    text = query.to_json()
    assert Query.from_json(text) == query
    assert Query.from_json(text).to_json() == text
    assert json.dumps(json.loads(text), sort_keys=True) == json.dumps(json.loads(text))


@given(strategies.conditions())
def test_the_json_form_of_a_condition_reads_back_as_itself(condition: AppendCondition) -> None:
    text = condition.to_json()
    assert AppendCondition.from_json(text) == condition
    assert AppendCondition.from_json(text).to_json() == text


@given(strategies.conditions())
def test_conditions_and_queries_can_be_pickled(condition: AppendCondition) -> None:
    twin = pickle.loads(pickle.dumps(condition))
    assert twin == condition
    assert hash(twin) == hash(condition)
    assert [part.after for part in twin.parts] == [part.after for part in condition.parts]


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))]
)
def test_requests_can_be_copied_and_pickled(copied: Any) -> None:
    event, query = Event("A", {"n": 1}, tags=["x"]), Query.tag("x")
    for request in (
        AppendRequest(event),
        AppendRequest([event], AppendCondition(query, after=3), stream="s", unless_exists=Query.all()),
    ):
        twin = copied(request)
        assert twin == request
        assert (hash(twin), twin.events, twin.stream) == (hash(request), request.events, request.stream)


@given(ITEMS, EVENTS)
def test_an_item_matches_by_the_letter_of_the_design(item: QueryItem, event: Event) -> None:
    plain = QueryItem(where=item.where)
    expected = (
        (not item.types or event.type in item.types)
        and event.type not in item.exclude_types
        and {*item.tags} <= {*event.tags}
        and item.stream in (None, event.stream)
        and item.subject in (None, event.subject)
        and item.key in (None, event.key)
        and plain.matches(event)
    )
    assert item.matches(event) == expected


def test_nothing_asked_is_all() -> None:
    assert Query.of(QueryItem()) == Query.all()
    assert Query.of(QueryItem(tags=["x"]), QueryItem()) == Query.all()
    assert Query.all().is_all
    assert not Query.user().is_all
    assert Query.all().keys() == ()


def test_a_repeated_tag_or_type_or_item_changes_nothing() -> None:
    item = QueryItem(types=["A"], tags=["x"])
    assert QueryItem(types=["A", "A"], tags=["x", "x"]) == item
    assert Query.of(item, item).items == (item,)
    assert Query.of(item, QueryItem(tags=["y"])) == Query.of(QueryItem(tags=["y"]), item)


def test_items_and_their_names_are_tuples() -> None:
    query = Query.of(QueryItem(types=["B", "A"], tags=["y", "x"]))
    assert (query.items[0].types, query.items[0].tags) == (("A", "B"), ("x", "y"))
    assert isinstance(query.items, tuple)


def test_keys_are_sorted_and_say_what_they_are() -> None:
    query = Query.of(
        QueryItem(types=["B"], tags=["x", "a"], stream="s"), QueryItem(tags=["x"], subject="u", types=["A"])
    )
    assert query.keys() == ("stream:s", "subject:u", "tag:a", "tag:x", "type:A", "type:B")


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        (Query.stream("course:432"), ("stream:course:432",)),
        (Query.tag("user:123"), ("tag:user:123",)),
        (Query.subject("user:123"), ("subject:user:123",)),
        (Query.tag("user:123", "course:432"), ("tag:course:432", "tag:user:123")),
        (Query.tag("user:123") | Query.tag("user:123", "a"), ("tag:a", "tag:user:123")),
        (Query.stream("s") & Query.subject("u"), ("stream:s", "subject:u")),
    ],
)
def test_the_keys_of_a_boundary_are_its_stream_its_subject_and_its_tags(
    query: Query, keys: tuple[str, ...]
) -> None:
    assert query.keys() == keys


def test_and_distributes_over_or() -> None:
    joined = (Query.tag("a") | Query.tag("b")) & (Query.types("T") | Query.stream("s"))
    expected = Query.of(
        *(QueryItem(tags=[tag], **other) for tag in "ab" for other in ({"types": ["T"]}, {"stream": "s"}))
    )
    assert joined == expected


def test_contradictory_items_are_dropped() -> None:
    joined = (Query.types("A") | Query.tag("x")) & Query.types("B")
    assert joined == Query.of(QueryItem(types=["B"], tags=["x"]))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (Query.types("A"), Query.types("B")),
        (Query.stream("s"), Query.stream("t")),
        (Query.subject("u"), Query.subject("v")),
        (Query.types("A"), Query.of(QueryItem(exclude_types=["A"]))),
        (Query.user(), Query.types("$retagged")),
    ],
)
def test_a_query_that_no_event_can_match_is_invalid(left: Query, right: Query) -> None:
    for join in (lambda: left & right, lambda: right & left):
        with pytest.raises(InvalidQuery) as caught:
            join()
        assert caught.value.hint


def test_joining_with_something_else_is_a_type_error() -> None:
    for join in (lambda: Query.all() & "x", lambda: Query.all() | QueryItem()):
        with pytest.raises(TypeError):
            join()


@pytest.mark.parametrize(
    "make",
    [
        Query.of,
        lambda: Query([]),
        Query.tag,
        Query.types,
        lambda: Query.of("x"),
        lambda: Query.of(Query.all()),
        lambda: Query.of(QueryItem(where={"$and": [1]})),
        lambda: Query.tag("$x"),
        lambda: Query.tag(""),
        lambda: Query.tag(7),
        lambda: Query.types(""),
        lambda: Query.types("a\nb"),
        lambda: Query.stream(""),
        lambda: QueryItem(stream=7),
        lambda: Query.subject("x" * 257),
        lambda: QueryItem(types="A"),
        lambda: QueryItem(tags="x"),
        lambda: QueryItem(exclude_types="A"),
        lambda: QueryItem(types=["A"], exclude_types=["A"]),
        lambda: QueryItem(tags=None),
    ],
)
def test_a_query_that_cannot_be_asked_is_invalid(make: Any) -> None:
    with pytest.raises(InvalidQuery) as caught:
        make()
    assert caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "null",
        '{"items":[]}',
        '{"items":{}}',
        '{"items":["x"]}',
        '{"items":[{"tag":["x"]}]}',
        '{"items":[{"tags":"x"}]}',
        '{"items":[{"tags":[1]}]}',
        '{"items":[{}],"more":1}',
        '{"items":[{"where":{"a":{"$nope":1}}}]}',
        b"\xff",
        "[" * 200_000,
    ],
)
def test_text_that_is_no_query_is_invalid(text: str | bytes) -> None:
    with pytest.raises(InvalidQuery):
        Query.from_json(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7",
        "{}",
        '{"after":0}',
        '{"parts":[]}',
        '{"fail_if_events_match":{"items":[{}]},"after":-1}',
        '{"fail_if_events_match":{"items":[{}]},"after":"0"}',
        '{"fail_if_events_match":{"items":[]},"after":0}',
        '{"fail_if_events_match":{"items":[{}]},"before":0}',
        b"\xff",
        "[" * 200_000,
    ],
)
def test_text_that_is_no_condition_is_invalid(text: str | bytes) -> None:
    with pytest.raises(InvalidInput):
        AppendCondition.from_json(text)


def test_after_may_be_left_out_of_the_json_form() -> None:
    assert AppendCondition.from_json('{"fail_if_events_match":{"items":[{}]}}') == AppendCondition(
        Query.all()
    )


def test_a_callable_has_no_json_form() -> None:
    query = Query.of(QueryItem(where=lambda event: True))
    for write in (query.to_json, AppendCondition(query).to_json):
        with pytest.raises(InvalidQuery, match="callable"):
            write()


def test_several_parts_ask_for_what_each_of_them_asks_for() -> None:
    one, other = AppendCondition(Query.tag("x"), 3), AppendCondition(Query.types("A"), 2)
    joined = AppendCondition.all_of(one, other)
    assert joined.parts == (one, other)
    assert (joined.fail_if_events_match, joined.after) == (Query.tag("x") | Query.types("A"), 2)
    assert AppendCondition.from_json(joined.to_json()) == joined


def test_all_of_nothing_is_invalid() -> None:
    with pytest.raises(InvalidInput):
        AppendCondition.all_of()
    with pytest.raises(InvalidInput):
        AppendCondition.all_of(Query.all())  # type: ignore[arg-type]


def test_queries_and_conditions_do_not_change() -> None:
    query = Query.tag("x")
    for value, name in ((query, "items"), (query.items[0], "tags"), (AppendCondition(query), "after")):
        with pytest.raises(AttributeError):
            setattr(value, name, ())


def where(event: object) -> bool:
    return True


EQUAL_QUERIES: dict[str, tuple[Query, Query]] = {
    "the order of items": (Query.types("A") | Query.tag("x"), Query.tag("x") | Query.types("A")),
    "types in one item or in several": (Query.types("A") | Query.types("B"), Query.types("A", "B")),
    "types twice": (Query.types("A", "B") | Query.types("B", "C"), Query.types("A", "B", "C")),
    "types with tags": (
        Query.of(QueryItem(["A"], ["x"]), QueryItem(["B"], ["x"])),
        Query.of(QueryItem(["B", "A"], ["x"])),
    ),
    "object matchers": (
        Query.of(QueryItem(["A"], where={"a": 1, "b": 2}), QueryItem(["B"], where={"b": 2, "a": 1})),
        Query.of(QueryItem(["A", "B"], where={"a": 1, "b": 2})),
    ),
    "a function": (
        Query.of(QueryItem(["A"], where=where), QueryItem(["B"], where=where)),
        Query.of(QueryItem(["A", "B"], where=where)),
    ),
}


@pytest.mark.parametrize("name", EQUAL_QUERIES)
def test_queries_that_ask_the_same_are_equal(name: str) -> None:
    one, other = EQUAL_QUERIES[name]
    assert one == other
    assert hash(one) == hash(other)
    assert AppendCondition(one, 3) == AppendCondition(other, 3)


@pytest.mark.parametrize(
    "other",
    [
        Query.types("A", "C"),
        Query.types("A"),
        Query.all(),
        Query.of(QueryItem(["A"]), QueryItem(["B"], ["x"])),
        Query.of(QueryItem(exclude_types=["A", "B"])),
    ],
)
def test_queries_that_ask_something_else_are_not_equal(other: Query) -> None:
    assert Query.types("A") | Query.types("B") != other


def test_the_order_of_the_parts_of_a_condition_does_not_matter() -> None:
    a, b = AppendCondition(Query.tag("a"), 1), AppendCondition(Query.tag("b"), 2)
    assert AppendCondition.all_of(a, b) == AppendCondition.all_of(b, a)
    assert hash(AppendCondition.all_of(a, b)) == hash(AppendCondition.all_of(b, a))
    assert AppendCondition.all_of(a, b).parts == (a, b)
    assert AppendCondition.all_of(a, b) != AppendCondition.all_of(
        AppendCondition(Query.tag("a"), 2), AppendCondition(Query.tag("b"), 1)
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda tags: Event("A", {}, tags=tags),
        lambda tags: QueryItem(tags=tags),
        lambda tags: QueryItem(types=tags),
        lambda tags: Event("A", {}).with_tags(*[tags]),
        stream_for,
    ],
)
def test_a_mapping_is_no_list_of_names(make: Any) -> None:
    with pytest.raises(InvalidInput):
        make({"wallet_id": "bob"})
    with pytest.raises(InvalidEvent) as refused:
        Event("A", {}, tags={"wallet_id": "bob"})
    assert (
        str(refused.value)
        == "tags are a list, not a mapping, whose values would be lost: {'wallet_id': 'bob'}"
    )
    assert refused.value.hint == 'write ["course:c1"], one text for name and value'


@pytest.mark.parametrize("function", [lambda: True, lambda a, b, c: True, lambda *, event: True])
def test_a_matcher_takes_one_argument_or_two(function: Any) -> None:
    with pytest.raises(
        InvalidQuery, match="called with the event, or with the event and its metadata"
    ) as refused:
        QueryItem(where=function)
    assert refused.value.hint == "write where=lambda event: …, or where=lambda event, metadata: …"


def is_by_ada(event: Event, metadata: Any) -> bool:
    return bool(metadata.get("user") == "ada")


def test_a_matcher_of_two_arguments_gets_the_metadata() -> None:
    query = Query.of(QueryItem(where=is_by_ada))
    assert query.matches(Event("A", {}, metadata={"user": "ada"}))
    assert not query.matches(Event("A", {}, metadata={"user": "bob"}))
    assert query == Query.of(QueryItem(where=is_by_ada)) == pickle.loads(pickle.dumps(query))
    assert hash(query) == hash(Query.of(QueryItem(where=is_by_ada)))
    assert query != Query.of(QueryItem(where=where))
    either = Query.of(QueryItem(where=lambda event, limit=3: limit == 3))
    assert either.matches(Event("A", {}))


@pytest.mark.parametrize("size", [1_536, 1_537])
def test_a_key_has_so_many_bytes(size: int) -> None:
    key = "é" * (size // 2) + "x" * (size % 2)
    if size > 1_536:
        with pytest.raises(InvalidQuery, match="a key has at most 1,536 bytes"):
            QueryItem(key=key)
    else:
        assert QueryItem(key=key).key == key


def test_equal_queries_have_equal_hashes() -> None:
    left = Query.of(QueryItem(tags=["x"], where={"a": 1, "b": 2}), QueryItem(types=["A"]))
    right = Query.of(QueryItem(types=["A"]), QueryItem(tags=["x"], where={"b": 2, "a": 1}))
    assert left == right
    assert hash(left) == hash(right)
    assert left != Query.of(QueryItem(tags=["x"], where={"a": True, "b": 2}), QueryItem(types=["A"]))


def test_a_request_is_checked_when_it_is_made() -> None:
    event = Event("A", {})
    for make in (
        lambda: AppendRequest([]),
        lambda: AppendRequest("x"),  # type: ignore[arg-type]
        lambda: AppendRequest(event, Query.all()),  # type: ignore[arg-type]
        lambda: AppendRequest(event, unless_exists="x"),  # type: ignore[arg-type]
        lambda: AppendRequest(event, stream=""),
    ):
        with pytest.raises(InvalidInput):
            make()
    assert AppendRequest(event).events == (event,)


def test_values_show_how_they_are_written() -> None:
    query = Query.of(QueryItem(types=["A"], tags=["x"]))
    assert repr(query) == "Query.of(QueryItem(types=('A',), tags=('x',)))"
    assert repr(AppendCondition(query, 3)) == f"AppendCondition({query!r}, after=3)"
    assert repr(Query.all()) == "Query.all()"
    joined = AppendCondition.all_of(AppendCondition(query, 3), AppendCondition(Query.all()))
    assert repr(joined).startswith("AppendCondition.all_of(")


def test_a_where_that_is_too_deep_is_refused_when_it_is_made() -> None:
    deep: object = 1
    for _ in range(60):
        deep = {"b": deep}
    for where in ({"a": deep}, {"a": {"$eq": deep}}, {"a": [deep]}):
        with pytest.raises(InvalidQuery, match="levels deep"):
            QueryItem(where=where)


def test_a_query_knows_whether_it_must_look_into_events() -> None:
    filtered = QueryItem(types=["A"], where={"x": 1})
    assert Query.of(QueryItem(types=["A"]), filtered).has_where
    assert not Query.of(QueryItem(types=["A"])).has_where
    assert not Query.of(filtered, QueryItem()).has_where  # every event matches
    assert (Query.types("A") & Query.of(QueryItem(where={"x": 1}))).has_where
