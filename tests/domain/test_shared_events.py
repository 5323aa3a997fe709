"""What a handler does to the event that it was handed changes no other state."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
import pytest

import strandline
from strandline import DomainEvent, Event, EventStore, InvalidEvent, Projection, TagId, command, on
from strandline.domain.event_shape import event_shape


class OrderId(TagId): ...


class CustomerId(TagId): ...


class Placed(DomainEvent):
    order: OrderId
    customer: CustomerId
    lines: list[str]


class Order(Projection):
    id: OrderId
    lines: list[str] = []

    @on
    def placed(self, event: Placed) -> None:
        self.lines = event.lines
        self.lines.append("seen by the order")


class Customer(Projection):
    id: CustomerId
    lines: list[str] = []

    @on
    def placed(self, event: Placed) -> None:
        self.lines = event.lines
        self.lines.append("seen by the customer")


@command
def place(order: Order, customer: Customer, line: str) -> Iterator[Placed]:
    yield Placed(order=order.id, customer=customer.id, lines=[line])


@pytest.fixture
def store() -> Iterator[EventStore]:
    with strandline.connect("memory:") as store:
        yield store


def test_in_a_boundary(store: EventStore) -> None:
    store.append(Placed(order=OrderId("o"), customer=CustomerId("c"), lines=["a"]))
    with store.boundary(Order("o"), Customer("c")) as boundary:
        order, customer = boundary.states
    assert order.lines == ["a", "seen by the order"]
    assert customer.lines == ["a", "seen by the customer"]


def test_in_states_that_are_kept_after_an_own_append(store: EventStore) -> None:
    for line in "ab":
        store.execute(place, Order("o"), Customer("c"), line)
    assert store.project(Order("o")).lines == ["b", "seen by the order"]
    assert store.project(Customer("c")).lines == ["b", "seen by the customer"]


class Line(msgspec.Struct, frozen=True):
    text: str


@pytest.mark.parametrize(
    ("kind", "is_fixed"),
    [
        (str, True),
        (int | None, True),
        (OrderId | None, True),
        (tuple[OrderId, ...], True),
        (tuple[int, str], True),
        (frozenset[str], True),
        (datetime, True),
        (Literal["a", "b"], True),
        (Annotated[int, msgspec.Meta(ge=0)], True),
        (list[OrderId], False),
        (tuple[list[str], ...], False),
        (dict[str, int], False),
        (list[str] | None, False),
        (Line, False),  # what it has in it is not looked at
        (object, False),
    ],
)
def test_what_cannot_be_changed(kind: object, is_fixed: bool) -> None:
    class Happened(DomainEvent):
        value: kind  # type: ignore[valid-type]

    assert event_shape(Happened).is_fixed is is_fixed


class Tenanted(DomainEvent):
    order: OrderId

    def to_event(self, **options: Any) -> Event:
        return super().to_event(**options).with_tags("tenant:acme")


class Paid(DomainEvent):
    order: OrderId


class Count(Projection):
    id: OrderId
    events: int = 0

    @on
    def happened(self, event: Tenanted | Paid) -> None:
        self.events += 1


@command
def move_in(count: Count) -> Iterator[Tenanted]:
    yield Tenanted(order=count.id)


@command
def pay(count: Count) -> Iterator[Paid]:
    yield Paid(order=count.id)


def test_a_class_may_add_to_what_it_writes(store: EventStore) -> None:
    for _ in range(2):
        store.execute(move_in, Count("o"))
    assert [event.tags for event in store.read()] == [("order:o", "tenant:acme")] * 2
    assert store.project(Count("o")).events == 2


def test_an_event_that_nobody_can_read_is_not_taken_from_memory(store: EventStore) -> None:
    newer = Paid(order=OrderId("o")).to_event().with_metadata({"version": "7"})
    with store.boundary(Count("o")) as boundary:
        boundary.append(newer)
    with pytest.raises(InvalidEvent, match="version 7"):
        store.execute(pay, Count("o"))
