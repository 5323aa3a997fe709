"""Product prices: an order is taken at the price that the customer was shown, if that price is still good.

The problem: prices change while customers fill their carts, a price that was just replaced stays good for
some minutes, and a cart has several products. Streams per product fail at it: an order over three products
would have to be checked against three streams at once, and put into one of them; a read model of old prices
is one more thing to keep. Here every product in the cart adds its own prices to the boundary, so it is as
wide as the cart and no wider; orders are not part of it, so any number of customers buy the same product
without getting in each other's way.

The scenario is "dynamic product price" of https://dcb.events.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from itertools import pairwise

import strandline
from strandline import NOW, DomainEvent, EventStore, Projection, Query, SequencedEvent, TagId, command, on
from strandline.testing import ManualClock

GRACE = timedelta(minutes=10)


class ProductId(TagId): ...


class OrderId(TagId): ...


class ProductDefined(DomainEvent):
    product: ProductId
    cents: int


class PriceChanged(DomainEvent):
    product: ProductId
    cents: int


class ProductOrdered(DomainEvent):
    order: OrderId
    product: ProductId
    cents: int


class ProductExists(Exception): ...


class NoSuchProduct(Exception): ...


class PriceNotValid(Exception): ...


class Product(Projection):
    id: ProductId
    prices: list[tuple[int, datetime]] = []  # each with the time from which it was shown

    @on
    def priced(self, event: ProductDefined | PriceChanged, recorded: SequencedEvent) -> None:
        self.prices.append((event.cents, recorded.recorded_at))

    def valid_prices(self, now: datetime) -> set[int]:
        """The price of today, and those that were replaced less than the grace period ago."""
        replaced = [(cents, until) for (cents, _), (_, until) in pairwise(self.prices)]
        in_grace = {cents for cents, until in replaced if now - until <= GRACE}
        return in_grace | {cents for cents, _ in self.prices[-1:]}


@command
def define(product: Product, cents: int) -> Iterator[ProductDefined]:
    """Offer a product."""
    if product.prices:
        raise ProductExists(product.id)
    yield ProductDefined(product=product.id, cents=cents)


@command
def change_price(product: Product, cents: int) -> Iterator[PriceChanged]:
    """Change the price; nothing is written if it is the price already."""
    if not product.prices:
        raise NoSuchProduct(product.id)
    if product.prices[-1][0] != cents:
        yield PriceChanged(product=product.id, cents=cents)


@command
def place_order(
    order: OrderId, cart: list[Product], shown: list[int], now: datetime = NOW
) -> Iterator[ProductOrdered]:
    """Order the products at the prices that were shown, all of them or none."""
    for product, cents in zip(cart, shown, strict=True):
        if cents not in product.valid_prices(now):
            raise PriceNotValid(product.id, cents)
        yield ProductOrdered(order=order, product=product.id, cents=cents)


def story(store: EventStore, clock: ManualClock) -> None:
    """A price changes while carts are full."""
    store.execute(define, Product("tea"), 400)
    store.execute(define, Product("cake"), 350)
    cart = [Product("tea"), Product("cake")]
    print("tea costs 4.00 and cake 3.50; somebody puts both into a cart")

    store.execute(change_price, Product("tea"), 450)
    clock.move(60)
    store.execute(place_order, OrderId("o1"), cart, [400, 350])
    print("tea becomes 4.50; a minute later the cart is ordered as it was shown: the old price is still good")

    clock.move(GRACE.total_seconds())
    try:
        store.execute(place_order, OrderId("o2"), cart, [400, 350])
    except PriceNotValid as refusal:
        print(f"ten minutes later it is not: PriceNotValid{refusal}, and no cake was ordered either")

    def buy(number: int) -> None:
        store.execute(place_order, OrderId(f"o{number}"), cart, [450, 350])

    before = store.stats().refused
    with ThreadPoolExecutor(8) as customers:
        list(customers.map(buy, range(3, 23)))
    met = store.stats().refused - before
    print(f"20 customers order the same cart at once: {met} conflicts, orders do not spoil orders")
    print(f"ordered: {store.count(Query.types('ProductOrdered'))} pieces")


if __name__ == "__main__":
    time = ManualClock()
    with tempfile.TemporaryDirectory() as folder, strandline.connect(f"{folder}/shop.db", clock=time) as shop:
        story(shop, time)
