from __future__ import annotations

from functools import partial

import pytest
from at_once import conflicts, overlapping

from prevent_record_duplication import Form, Order, OrderExists, OrderPlaced, place_order, send_form
from strandline import EventStore, Query


def test_a_form_that_is_sent_again_gets_the_first_answer(store: EventStore) -> None:
    assert store.execute(send_form, Form("f1"), Order("o1"), "tea").value == "o1"
    again = store.execute(send_form, Form("f1"), Order("o2"), "tea")
    assert (again.value, again.count) == ("o1", 0)
    with pytest.raises(OrderExists):
        store.execute(send_form, Form("f2"), Order("o1"), "tea")
    (event,) = store.read()
    assert (event.tags, event.decode(OrderPlaced).item) == (("form_token:f1", "order:o1"), "tea")


def test_a_form_sent_by_many_at_once_is_one_order(store: EventStore) -> None:
    outcomes = overlapping(
        store, (partial(store.execute, send_form, Form("f1"), Order(f"o{n}"), "tea") for n in range(6))
    )
    assert len({outcome.value for outcome in outcomes}) == 1
    assert sorted(outcome.count for outcome in outcomes) == [0, 0, 0, 0, 0, 1]
    assert store.head() == 1


def test_a_key_makes_any_command_happen_once(store: EventStore) -> None:
    once = place_order.with_options(idempotency_key="k1")
    first, again = (store.execute(once, Order("o1"), "tea") for _ in range(2))
    assert (first.duplicate, again.duplicate, again.position, again.count) == (False, True, 1, 1)
    (event,) = store.read()
    assert event.tags == ("order:o1",)
    with pytest.raises(OrderExists):
        store.execute(place_order.with_options(idempotency_key="k2"), Order("o1"), "tea")
    store.execute(place_order.with_options(idempotency_key="k2"), Order("o2"), "tea")


def test_a_key_used_by_many_at_once_is_one_order(store: EventStore) -> None:
    once = place_order.with_options(idempotency_key="k1")
    outcomes = overlapping(store, [partial(store.execute, once, Order("o1"), "tea")] * 6)
    assert {outcome.position for outcome in outcomes} == {1}
    assert sum(outcome.duplicate for outcome in outcomes) == 5
    assert store.count(Query.types("OrderPlaced")) == 1


def test_a_repeat_between_read_and_append_is_found_by_the_append(store: EventStore) -> None:
    call = partial(store.execute, place_order.with_options(idempotency_key="k1"), Order("o1"), "tea")
    assert conflicts(store, call, call) == 0
    assert store.count(Query.types("OrderPlaced")) == 1
