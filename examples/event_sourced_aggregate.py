"""Event-sourced aggregates: an order as an object with a repository, kept in a log that knows no aggregates.

The problem: much code is written as aggregates, loaded and saved one at a time, and it should go on working
while some rules need more than one of them ("a customer has at most two open orders"). Streams per aggregate
are fine for the first part and fail at the second: no order's stream knows about the customer's other orders.
Here a stream is just one of the boundaries a decision can have: the repository appends if nothing new is in
the order's stream (or carries its tag), and a command beside it decides over the same events by the
customer's tag.

The scenario is "event-sourced aggregate" of https://dcb.events.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Self

import strandline
from strandline import (
    AppendCondition,
    AppendConditionFailed,
    DomainEvent,
    Event,
    EventStore,
    Projection,
    Query,
    TagId,
    command,
    on,
)

MOST_OPEN_ORDERS = 2


class OrderId(TagId): ...


class CustomerId(TagId): ...


class OrderOpened(DomainEvent):
    order: OrderId
    customer: CustomerId


class ItemAdded(DomainEvent):
    order: OrderId
    item: str


class OrderSubmitted(DomainEvent):
    order: OrderId
    customer: CustomerId


OrderEvent = OrderOpened | ItemAdded | OrderSubmitted
EVENTS: dict[str, type[OrderEvent]] = {
    cls.event_type: cls for cls in (OrderOpened, ItemAdded, OrderSubmitted)
}


class NoSuchOrder(Exception): ...


class OrderExists(Exception): ...


class OrderClosed(Exception): ...


class OrderEmpty(Exception): ...


class TooManyOpenOrders(Exception): ...


class Order:
    """A classic aggregate: methods check the rules, record events and apply them. It knows of no store."""

    id: OrderId
    customer: CustomerId

    def __init__(self) -> None:
        self.items: list[str] = []
        self.is_submitted = False
        self.recorded: list[OrderEvent] = []
        self.version = 0  # the position up to which it is known

    @classmethod
    def open(cls, order: OrderId, customer: CustomerId) -> Self:
        opened = cls()
        opened._record(OrderOpened(order=order, customer=customer))
        return opened

    @classmethod
    def of(cls, events: list[OrderEvent]) -> Self:
        """The order that these events tell of."""
        order = cls()
        for event in events:
            order._apply(event)
        return order

    def add(self, item: str) -> None:
        if self.is_submitted:
            raise OrderClosed(self.id)
        self._record(ItemAdded(order=self.id, item=item))

    def submit(self) -> None:
        if self.is_submitted:
            raise OrderClosed(self.id)
        if not self.items:
            raise OrderEmpty(self.id)
        self._record(OrderSubmitted(order=self.id, customer=self.customer))

    def _record(self, event: OrderEvent) -> None:
        self.recorded.append(event)
        self._apply(event)

    def _apply(self, event: OrderEvent) -> None:
        match event:
            case OrderOpened():
                self.id, self.customer = event.order, event.customer
            case ItemAdded():
                self.items.append(event.item)
            case OrderSubmitted():
                self.is_submitted = True


class OrdersByTag:
    """A repository. The boundary of an order is the events that carry its tag."""

    def __init__(self, store: EventStore) -> None:
        self._store = store

    def load(self, id: OrderId) -> Order:
        read = self._store.read(self.boundary(id))
        events = [event.decode(EVENTS[event.type]) for event in read]
        if not events:
            raise NoSuchOrder(id)
        order = Order.of(events)
        order.version = read.head
        return order

    def save(self, order: Order) -> None:
        """Write what the order recorded, if nobody else wrote to it since it was loaded."""
        if order.recorded:
            condition = AppendCondition(self.boundary(order.id), after=order.version)
            result = self._store.append(order.recorded, condition, stream=self.stream(order.id))
            order.version, order.recorded = result.position, []

    def boundary(self, id: OrderId) -> Query:
        return Query.tag(id)

    def stream(self, id: OrderId) -> str | None:
        return None


class OrdersByStream(OrdersByTag):
    """The same with a stream per order, as in stores that have nothing else."""

    def boundary(self, id: OrderId) -> Query:
        return Query.stream(stream_of(id))

    def stream(self, id: OrderId) -> str:
        return stream_of(id)


def stream_of(order: OrderId) -> str:
    """The name of an order's stream."""
    return f"order-{order}"


class Customer(Projection):
    """What no single order knows: how many orders of a customer are open."""

    id: CustomerId
    open_orders: list[OrderId] = []

    @on
    def opened(self, event: OrderOpened) -> None:
        self.open_orders.append(event.order)

    @on
    def submitted(self, event: OrderSubmitted) -> None:
        self.open_orders.remove(event.order)


class Opening(Projection):
    id: OrderId
    is_done: bool = False

    @on
    def opened(self, event: OrderOpened) -> None:
        self.is_done = True


@command
def open_order(customer: Customer, order: Opening) -> Iterator[Event]:
    """Open an order if the customer has not too many; it goes into the stream where the repository looks."""
    if order.is_done:
        raise OrderExists(order.id)
    if len(customer.open_orders) >= MOST_OPEN_ORDERS:
        raise TooManyOpenOrders(customer.id)
    yield OrderOpened(order=order.id, customer=customer.id).to_event(stream=stream_of(order.id))


def story(store: EventStore) -> None:
    """Two people edit one order; a customer opens one too many."""
    orders = OrdersByStream(store)
    order = Order.open(OrderId("o1"), CustomerId("ada"))
    order.add("tea")
    orders.save(order)
    print(f"an order is saved in the stream {stream_of(order.id)} with {order.items}")

    mine, yours = orders.load(order.id), orders.load(order.id)
    mine.add("cake")
    yours.add("salt")
    orders.save(mine)
    try:
        orders.save(yours)
    except AppendConditionFailed as conflict:
        print(f"two people load it and both save: the second is refused, {conflict}")
    print(f"the order has {orders.load(order.id).items}")

    store.execute(open_order, Customer("ada"), Opening("o2"))
    try:
        store.execute(open_order, Customer("ada"), Opening("o3"))
    except TooManyOpenOrders:
        print("a rule over several orders is a command over the same events: two open orders are enough")
    submitted = orders.load(order.id)
    submitted.submit()
    orders.save(submitted)
    store.execute(open_order, Customer("ada"), Opening("o3"))
    print("the first is submitted, through the repository; now the command opens the next")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, strandline.connect(f"{folder}/orders.db") as shop:
        story(shop)
