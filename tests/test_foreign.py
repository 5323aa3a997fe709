"""JSON objects from elsewhere become events: paths or functions say where type, tags and id are."""

from __future__ import annotations

import json
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from places import Place
from strandline import Event, InvalidEvent, InvalidInput, Query, TagId
from strandline.testing.strategies import json_values, own_names

ID = "01890a5d-ac96-774b-bcce-b302099a8057"
ORDER: dict[str, Any] = {
    "meta": {"kind": "OrderPlaced", "id": ID, "by": {"user": 7}},
    "orderId": "o1",
    "lines": [{"sku": "a"}, {"sku": "b"}],
    "coupons": ["c1", "c2"],
    "type": "order",
    "total": 12.5,
}


class OrderId(TagId): ...


def test_an_object_becomes_the_data_of_its_event() -> None:
    event = Event.from_foreign(ORDER)
    assert (event.type, event.tags, event.subject, event.stream) == ("order", (), None, None)
    assert event.json() == ORDER


@pytest.mark.parametrize("line", [json.dumps(ORDER), f" {json.dumps(ORDER)}\n", json.dumps(ORDER).encode()])
def test_the_text_of_an_object_stays_as_it_is(line: str | bytes) -> None:
    event = Event.from_foreign(line, type="meta.kind")
    assert (event.type, event.data) == ("OrderPlaced", json.dumps(ORDER).encode())


def test_paths_and_functions_say_where_things_are() -> None:
    by_path = Event.from_foreign(
        ORDER,
        type="meta.kind",
        tags={"order": "orderId", "coupon": "coupons", "user": "meta.by.user", "gift": "gift"},
        id="meta.id",
        subject="orderId",
        stream="meta.by.user",
    )
    by_function = Event.from_foreign(
        ORDER,
        type=lambda order: order["meta"]["kind"],
        tags=lambda order: [OrderId(order["orderId"]), "coupon:c1", "coupon:c2", "user:7"],
        id=lambda order: UUID(order["meta"]["id"]),
        subject=lambda order: order["orderId"],
        stream=lambda order: 7,
    )
    assert by_path == by_function
    assert (by_path.type, by_path.id, by_path.subject, by_path.stream) == ("OrderPlaced", UUID(ID), "o1", "7")
    assert by_path.tags == ("coupon:c1", "coupon:c2", "order:o1", "user:7")


@pytest.mark.parametrize(
    ("found", "skus"),
    [
        ([{"sku": "a"}, {"sku": "b"}, {"sku": "a"}], ["a", "b"]),
        (({"sku": "a"}, {"sku": 7}), ["7", "a"]),
        ([{"sku": "a"}, {"gift": True}, {"sku": None}, None, "free", []], ["a"]),
        ([{"sku": ["a", "b"]}, [{"sku": "c"}]], ["a", "b", "c"]),
        ([{"sku": ["a", None]}, {"sku": [None]}], ["a"]),
        ({"sku": ["a"]}, ["a"]),
        ([], []),
    ],
)
def test_a_path_through_a_list_finds_something_in_each_of_its_objects(found: Any, skus: list[str]) -> None:
    order = {"type": "P", "order": {"items": found}}
    assert Event.from_foreign(order, tags={"sku": "order.items.sku"}).tags == tuple(f"sku:{s}" for s in skus)


@pytest.mark.parametrize("found", [[{"sku": 1.5}], [{"sku": {}}], [{"sku": [["a"]]}]])
def test_what_is_no_value_of_a_tag_in_a_list_is_an_invalid_event(found: Any) -> None:
    with pytest.raises(InvalidEvent, match="a tag sku:… is made of text"):
        Event.from_foreign({"type": "P", "items": found}, tags={"sku": "items.sku"})


def test_what_is_nested_too_deeply_for_a_tag_is_told_like_anything_else() -> None:
    deep: list[Any] = []
    for _ in range(3_000):
        deep = [deep]
    with pytest.raises(InvalidEvent, match="not of list"):
        Event.from_foreign({"type": "P", "sku": [deep]}, tags={"sku": lambda found: found["sku"]})


def test_the_class_of_an_id_says_the_prefix() -> None:
    assert Event.from_foreign(ORDER, tags={OrderId: "orderId"}).tags == ("order:o1",)


def test_a_typed_id_is_its_tag_in_a_stream_and_a_subject() -> None:
    event = Event.from_foreign(
        {"type": "A", "orderId": 7, "by": OrderId("8")},
        stream=lambda found: OrderId(found["orderId"]),
        subject="by",
    )
    assert (event.stream, event.subject) == ("order:7", "order:8")


def test_what_is_optional_may_be_absent_or_null() -> None:
    absent = Event.from_foreign(
        {"type": "A", "n": None, "list": []},
        tags={"n": "n", "m": "m.o", "l": "list"},
        subject="n",
        stream=lambda _: None,
    )
    assert (absent.tags, absent.subject, absent.stream) == ((), None, None)


def test_ids_from_elsewhere_make_an_import_that_may_be_repeated(place: Place) -> None:
    objects = [{"kind": "Counted", "number": number, "counter": number % 2} for number in range(6)]

    def events() -> list[Event]:
        return [
            Event.from_foreign(
                each,
                type="kind",
                tags={"counter": "counter"},
                id=lambda each: uuid5(NAMESPACE_URL, f"counter/{each['number']}"),
            )
            for each in objects
        ]

    with place.connect() as store:
        assert store.append(events()).count == 6
        assert store.append(events()).duplicate
        assert [event.json()["number"] for event in store.read(Query.tag("counter:1"))] == [1, 3, 5]


@given(name=own_names(), others=st.dictionaries(st.text("abc", min_size=1), json_values()))
def test_any_object_with_a_type_is_an_event(name: str, others: dict[str, Any]) -> None:
    event = Event.from_foreign(json.dumps({**others, "the": {"type": name}}), type="the.type")
    assert (event.type, event.json()) == (name, {**others, "the": {"type": name}})


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"type": "kind"}, "no type at 'kind'"),
        ({"type": "meta.missing.kind"}, "no type at 'meta.missing.kind'"),
        ({"type": "orderId.kind"}, "no type at 'orderId.kind'"),
        ({"type": "lines.0.sku"}, "no type at 'lines.0.sku'"),
        ({"type": lambda order: order.get("kind")}, "no type where the function looks"),
        ({"type": "meta"}, "a type is a str"),
        ({"type": "total"}, "a type is a str"),
        ({"id": "meta.uuid"}, "no id at 'meta.uuid'"),
        ({"id": "orderId"}, "a UUID or its text"),
        ({"tags": {"total": "total"}}, "a tag total:… is made of text or a whole number"),
        ({"tags": {"line": "lines"}}, "a tag line:… is made of text"),
        ({"tags": {"$order": "orderId"}}, "reserved"),
        ({"tags": lambda order: order["orderId"]}, "tags are a list"),
        ({"type": "lines.sku"}, "no type at 'lines.sku'"),
        ({"id": "lines.sku"}, "no id at 'lines.sku'"),
        ({"subject": "lines"}, "a subject is made of text"),
        ({"subject": "meta"}, "a subject is made of text"),
        ({"stream": "total"}, "a stream is made of text"),
    ],
)
def test_what_is_not_found_is_an_invalid_event_that_names_the_path(options: Any, told: str) -> None:
    with pytest.raises(InvalidEvent, match=told) as caught:
        Event.from_foreign(ORDER, **options)
    assert caught.value.hint


def test_the_hint_lists_what_the_object_has() -> None:
    with pytest.raises(InvalidEvent) as caught:
        Event.from_foreign({"kind": "A", "n": 1})
    assert caught.value.hint.endswith("the object has: kind, n")


@pytest.mark.parametrize(
    "value", ["", "{", "[]", '"text"', "{} {}", b"\xff", "\ud800", "[" * 100_000, None, 7, [ORDER]]
)
def test_what_is_no_object_is_an_invalid_event_with_a_hint(value: Any) -> None:
    with pytest.raises(InvalidEvent) as caught:
        Event.from_foreign(value)
    assert caught.value.hint


@pytest.mark.parametrize("path", ["", ".", "meta.", "meta..kind", 7])
def test_what_is_no_path_is_invalid_input(path: Any) -> None:
    with pytest.raises(InvalidInput, match="not a path"):
        Event.from_foreign(ORDER, type=path)
