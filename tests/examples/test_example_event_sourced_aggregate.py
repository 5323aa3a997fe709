from __future__ import annotations

from functools import partial
from threading import Barrier

import pytest
from at_once import PATIENCE_SECONDS, at_once, kinds, overlapping

from event_sourced_aggregate import (
    Customer,
    CustomerId,
    NoSuchOrder,
    Opening,
    Order,
    OrderClosed,
    OrderEmpty,
    OrderExists,
    OrderId,
    OrdersByStream,
    OrdersByTag,
    TooManyOpenOrders,
    open_order,
)
from strandline import AppendConditionFailed, EventStore, Query
from strandline.testing import interfering

O1, ADA = OrderId("o1"), CustomerId("ada")


@pytest.fixture(params=[OrdersByTag, OrdersByStream])
def orders(request: pytest.FixtureRequest, store: EventStore) -> OrdersByTag:
    repository: OrdersByTag = request.param(store)
    return repository


def test_the_rules_of_the_aggregate_need_no_store() -> None:
    order = Order.open(O1, ADA)
    with pytest.raises(OrderEmpty):
        order.submit()
    order.add("tea")
    order.submit()
    for late in (partial(order.add, "salt"), order.submit):
        with pytest.raises(OrderClosed):
            late()
    assert [type(event).__name__ for event in order.recorded] == [
        "OrderOpened",
        "ItemAdded",
        "OrderSubmitted",
    ]


def test_what_is_saved_is_loaded(orders: OrdersByTag) -> None:
    with pytest.raises(NoSuchOrder):
        orders.load(O1)
    order = Order.open(O1, ADA)
    order.add("tea")
    orders.save(order)
    order.add("cake")  # the same object can go on
    orders.save(order)
    loaded = orders.load(O1)
    assert (loaded.id, loaded.customer, loaded.items, loaded.recorded) == (O1, ADA, ["tea", "cake"], [])
    assert loaded.version == order.version == 3
    orders.save(loaded)
    assert orders.load(O1).version == 3


def test_an_order_that_others_saved_meanwhile_is_refused(orders: OrdersByTag) -> None:
    orders.save(Order.open(O1, ADA))
    orders.save(Order.open(OrderId("o2"), ADA))
    with pytest.raises(AppendConditionFailed):
        orders.save(Order.open(O1, ADA))

    read = Barrier(4)

    def edit(item: str) -> None:
        order = orders.load(O1)
        order.add(item)
        read.wait(PATIENCE_SECONDS)
        orders.save(order)

    outcomes = at_once(partial(edit, item) for item in "abcd")
    assert kinds(outcomes) == {"AppendConditionFailed": 3, "NoneType": 1}
    assert len(orders.load(O1).items) == 1


def test_orders_of_others_are_no_conflict(orders: OrdersByTag) -> None:
    order = Order.open(O1, ADA)
    orders.save(order)
    orders.save(Order.open(OrderId("o2"), ADA))
    order.add("tea")
    orders.save(order)
    assert orders.load(O1).items == ["tea"]


def test_a_command_and_a_repository_share_the_events(store: EventStore) -> None:
    orders = OrdersByStream(store)
    store.execute(open_order, Customer("ada"), Opening("o1"))
    order = orders.load(O1)
    order.add("tea")
    orders.save(order)
    assert store.count(Query.stream("order-o1")) == 2
    with pytest.raises(OrderExists):
        store.execute(open_order, Customer("bob"), Opening("o1"))
    another = partial(orders.save, Order.open(OrderId("o2"), ADA))
    with interfering(store, another), pytest.raises(TooManyOpenOrders):
        store.execute(open_order, Customer("ada"), Opening("o3"))
    order.submit()
    orders.save(order)
    store.execute(open_order, Customer("ada"), Opening("o3"))
    assert store.project(Customer("ada")).open_orders == ["o2", "o3"]


def test_the_last_order_that_a_customer_may_open_is_opened_once(store: EventStore) -> None:
    store.execute(open_order, Customer("ada"), Opening("o1"))
    outcomes = overlapping(
        store, (partial(store.execute, open_order, Customer("ada"), Opening(f"o{n}")) for n in range(2, 6))
    )
    assert kinds(outcomes) == {"Executed": 1, "TooManyOpenOrders": 3}
