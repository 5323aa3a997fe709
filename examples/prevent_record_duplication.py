"""Nothing twice: an order that is sent again, by a double click or for want of an answer, is one order.

The problem: a request and its repeat look like two requests, and the second must have no effect but get the
answer of the first. Streams per order fail at it unless the client may choose the order's id, and a table of
tokens that were seen is written in another transaction than the order. Here the client sends a token along,
and the token is a tag: the boundary of the decision is "no order carries this token yet", whatever else it
consists of.

Two ways: with the token as a part of the domain, which is "prevent record duplication" of https://dcb.events;
and with `idempotency_key`, for which any command will do as it is.
"""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor

import strandline
from strandline import DomainEvent, EventStore, Executed, Projection, Query, TagId, command, on


class OrderId(TagId): ...


class FormToken(TagId): ...


class OrderPlaced(DomainEvent):
    order: OrderId
    item: str
    form: FormToken | None = None  # a tag, if there is one


class OrderExists(Exception): ...


class Form(Projection):
    """A form that was shown to somebody, and the order that came of it."""

    token: FormToken
    order: OrderId | None = None

    @on
    def sent(self, event: OrderPlaced) -> None:
        self.order = event.order


class Order(Projection):
    id: OrderId
    exists: bool = False

    @on
    def placed(self, event: OrderPlaced) -> None:
        self.exists = True


@command
def send_form(form: Form, order: Order, item: str) -> Generator[OrderPlaced, None, OrderId]:
    """Place the order of a form. The one who sends it again gets the answer of the first time."""
    if form.order is not None:
        return form.order
    check_new(order)
    yield OrderPlaced(order=order.id, item=item, form=form.token)
    return order.id


@command
def place_order(order: Order, item: str) -> Iterator[OrderPlaced]:
    """Place an order. It knows nothing of forms and tokens."""
    check_new(order)
    yield OrderPlaced(order=order.id, item=item)


def check_new(order: Order) -> None:
    """Refuse the id of another order."""
    if order.exists:
        raise OrderExists(order.id)


def story(store: EventStore) -> None:
    """A form is sent five times at once, and a request is repeated five times."""

    def send(click: int) -> str:
        return str(store.execute(send_form, Form("f-1"), Order(f"o{click}"), "tea").value)

    with ThreadPoolExecutor(5) as clicks:
        answers = set(clicks.map(send, range(1, 6)))
    placed = store.count(Query.types("OrderPlaced"))
    print(f"a form is sent five times at once: {placed} order, and {len(answers)} answer for all of them")

    def request(key: str) -> Executed[None]:
        return store.execute(place_order.with_options(idempotency_key=key), Order("o7"), "cake")

    with ThreadPoolExecutor(5) as tries:
        results = list(tries.map(request, ["request-7"] * 5))
    print(
        f"a request is sent five times with one key: {len({done.position for done in results})} position,"
        f" {sum(done.duplicate for done in results)} of the answers say that it was done before"
    )
    try:
        store.execute(place_order, Order("o7"), "cake")
    except OrderExists:
        print("without the key it is another request, and the rule refuses it")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, strandline.connect(f"{folder}/orders.db") as shop:
        story(shop)
