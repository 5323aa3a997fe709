from __future__ import annotations

from functools import partial

import pytest
from at_once import at_once, conflicts, kinds, overlapping

from dynamic_product_price import (
    GRACE,
    NoSuchProduct,
    OrderId,
    PriceNotValid,
    Product,
    ProductExists,
    ProductOrdered,
    change_price,
    define,
    place_order,
)
from strandline import EventStore, InvalidQuery, Query
from strandline.testing import ManualClock, interfering

GRACE_SECONDS = GRACE.total_seconds()
O1 = OrderId("o1")


@pytest.fixture
def shop(store: EventStore) -> EventStore:
    store.execute(define, Product("tea"), 400)
    store.execute(define, Product("cake"), 350)
    return store


def ordered(store: EventStore) -> list[tuple[str, int]]:
    events = [event.decode(ProductOrdered) for event in store.read(Query.types("ProductOrdered"))]
    return [(event.product, event.cents) for event in events]


def test_the_shown_price_must_be_the_price(shop: EventStore) -> None:
    shop.execute(place_order, O1, [Product("tea")], [400])
    with pytest.raises(PriceNotValid):
        shop.execute(place_order, O1, [Product("tea")], [399])
    with pytest.raises(PriceNotValid):
        shop.execute(place_order, O1, [Product("salt")], [100])
    with pytest.raises(ProductExists):
        shop.execute(define, Product("tea"), 1)
    with pytest.raises(NoSuchProduct):
        shop.execute(change_price, Product("salt"), 1)
    assert shop.execute(change_price, Product("tea"), 400).count == 0
    assert ordered(shop) == [("tea", 400)]


def test_a_price_that_was_replaced_is_good_for_the_grace_period(shop: EventStore, clock: ManualClock) -> None:
    clock.move(10 * GRACE_SECONDS)
    shop.execute(change_price, Product("tea"), 450)
    shop.execute(place_order, O1, [Product("tea")], [450])
    clock.move(GRACE_SECONDS)
    shop.execute(change_price, Product("tea"), 500)
    assert shop.project(Product("tea")).valid_prices(clock()) == {400, 450, 500}
    clock.move(1)
    assert shop.project(Product("tea")).valid_prices(clock()) == {450, 500}
    with pytest.raises(PriceNotValid):
        shop.execute(place_order, O1, [Product("tea")], [400])
    shop.execute(place_order, O1, [Product("tea")], [450])
    clock.move(GRACE_SECONDS)
    assert shop.project(Product("tea")).valid_prices(clock()) == {500}


def test_a_cart_is_ordered_whole_or_not_at_all(shop: EventStore) -> None:
    cart = [Product("tea"), Product("cake")]
    result = shop.execute(place_order, O1, cart, [400, 350])
    assert (result.count, ordered(shop)) == (2, [("tea", 400), ("cake", 350)])
    with pytest.raises(PriceNotValid):
        shop.execute(place_order, O1, cart, [400, 1])
    with pytest.raises(ValueError, match="zip"):
        shop.execute(place_order, O1, cart, [400])
    with pytest.raises(InvalidQuery):
        shop.execute(place_order, O1, [], [])
    assert len(ordered(shop)) == 2


def test_the_boundary_is_as_wide_as_the_cart(shop: EventStore) -> None:
    shop.execute(place_order, O1, [Product("tea"), Product("cake")], [400, 350])
    *_, append = shop.appends()
    assert append.condition is not None
    queries = [part.fail_if_events_match for part in append.condition.parts]
    assert {(item.types, item.tags) for query in queries for item in query.items} == {
        (("PriceChanged", "ProductDefined"), ("product:tea",)),
        (("PriceChanged", "ProductDefined"), ("product:cake",)),
    }


def test_orders_do_not_spoil_orders(shop: EventStore) -> None:
    orders = [partial(shop.execute, place_order, OrderId(f"o{n}"), [Product("tea")], [400]) for n in range(6)]
    assert kinds(overlapping(shop, orders)) == {"Executed": 6}
    assert shop.stats().refused == 0
    assert ordered(shop) == [("tea", 400)] * 6


def test_a_price_that_ends_meanwhile_is_not_taken(shop: EventStore, clock: ManualClock) -> None:
    def time_passes() -> None:
        shop.execute(change_price, Product("tea"), 450)
        clock.move(GRACE_SECONDS + 1)

    with interfering(shop, time_passes), pytest.raises(PriceNotValid):
        shop.execute(place_order, O1, [Product("cake"), Product("tea")], [350, 400])
    change = partial(shop.execute, change_price, Product("tea"), 500)
    ordering = partial(shop.execute, place_order, O1, [Product("tea")], [450])
    assert conflicts(shop, ordering, change) == 1
    assert ordered(shop) == [("tea", 450)]


def test_prices_change_while_many_order(shop: EventStore, clock: ManualClock) -> None:
    def buy(number: int) -> int:
        (shown,) = sorted(shop.project(Product("tea")).valid_prices(clock()))[-1:]
        return shop.execute(place_order, OrderId(f"o{number}"), [Product("tea")], [shown]).count

    calls = [partial(buy, number) for number in range(8)]
    calls += [partial(shop.execute, change_price, Product("tea"), cents) for cents in (410, 420)]
    outcomes = at_once(calls)
    assert outcomes[:8] == [1] * 8
    assert kinds(outcomes[8:]) == {"Executed": 2}
    known: set[int] = set()
    for event in shop.read(Query.tag("product:tea")):
        if event.type == "ProductOrdered":
            assert event.decode(ProductOrdered).cents in known
        else:
            known.add(event.json()["cents"])
