"""A log outlives its programs: older versions are upcast, unknown types stay raw, what does not fit is named."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from enrolment import CourseId

from places import Place
from strandline import DomainEvent, Event, EventStore, InvalidEvent, Projection, Query, command, on, upcast


class Priced(DomainEvent, version=4):
    course: CourseId
    cents: int
    currency: str

    @staticmethod
    @upcast(1)
    def _from_text(data: dict[str, Any]) -> dict[str, Any]:
        return {"course": data["course"], "euros": float(data["price"])}

    @staticmethod
    @upcast(2)
    def _to_cents(data: dict[str, Any]) -> dict[str, Any]:
        return {"course": data["course"], "cents": round(data["euros"] * 100)}

    @staticmethod
    @upcast(3)
    def _with_currency(data: dict[str, Any]) -> dict[str, Any]:
        return {**data, "currency": "EUR"}


class Price(Projection):
    id: CourseId
    seen: list[tuple[int, str]] = []

    @on
    def priced(self, event: Priced) -> None:
        self.seen.append((event.cents, event.currency))


@command
def double(price: Price) -> Iterator[Priced]:
    cents, currency = price.seen[-1]
    yield Priced(course=price.id, cents=2 * cents, currency=currency)


def old(data: object, version: str | None = None, tag: str = "course:c1") -> Event:
    return Event("Priced", data, tags=[tag], metadata={} if version is None else {"version": version})


HISTORY = [
    old({"course": "c1", "price": "1.5"}),
    old({"course": "c1", "euros": 2.0}, "2"),
    old({"course": "c1", "cents": 300}, "3"),
    old({"course": "c1", "cents": 400, "currency": "CHF", "unknown": 1}, "4"),
]
SEEN = [(150, "EUR"), (200, "EUR"), (300, "EUR"), (400, "CHF")]


@pytest.fixture
def store(place: Place) -> Iterator[EventStore]:
    with place.connect() as store:
        store.append(HISTORY)
        yield store


def test_events_of_every_version_are_folded_as_the_newest(store: EventStore) -> None:
    assert store.project(Price("c1")).seen == SEEN
    with store.boundary(Price("c1")) as boundary:
        assert boundary.states[0].seen == SEEN
        boundary.append(Priced(course=CourseId("c1"), cents=500, currency="EUR"))
    store.execute(double.with_options(metadata={"by": "me"}), Price("c1"))
    assert store.project(Price("c1")).seen == [*SEEN, (500, "EUR"), (1000, "EUR")]
    *_, newest = store.read()
    assert newest.metadata == {"by": "me", "version": "4"}
    assert newest.decode(Priced).cents == 1000


def test_async_stores_upcast_too(place: Place) -> None:
    async def main() -> None:
        async with place.connect_async() as store:
            await store.append(HISTORY)
            assert (await store.project(Price("c1"))).seen == SEEN

    asyncio.run(main())


def test_unknown_types_stay_raw_and_break_nothing(store: EventStore) -> None:
    store.append(
        [Event("Unheard", b"\xff", tags=["course:c1"]), Event("Other", {"a": 1}, tags=["course:c1"])]
    )
    assert store.project(Price("c1")).seen == SEEN
    store.execute(double, Price("c1"))
    assert store.project(Price("c1")).seen[-1] == (800, "CHF")
    unheard, other = store.read(Query.types("Unheard", "Other"))
    assert (unheard.data, other.json()) == (b"\xff", {"a": 1})
    with pytest.raises(InvalidEvent, match=r"event 5 \(Unheard\) is not a Priced"):
        unheard.decode(Priced)


@pytest.mark.parametrize(
    ("event", "told", "hint"),
    [
        (old({"course": "c1", "cents": 1}, "4"), "the data of {} does not fit Priced: .*currency", "default"),
        (old({"course": "c1", "cents": "x"}, "3"), "the data of {} does not fit Priced: .*cents", "upcast"),
        (old({"course": "", "cents": 1, "currency": ""}, "4"), "the data of {} .*not empty", "upcast"),
        (old(b"no JSON", "4"), "the data of {} does not fit", "upcast"),
        (old(b"no JSON", "1"), "the data of {} does not fit", "upcast"),
        (old({"course": "c1"}), "the upcast of {} from version 1 failed: KeyError", "@upcast(1)"),
        (old([], "2"), "the upcast of {} from version 2 failed: TypeError", "@upcast(2)"),
        (old({}, "5"), "{} has version 5, Priced knows up to 4", "newer program"),
        (old({}, "0"), "{} has the version '0'", "metadata"),
        (old({}, "new"), "{} has the version 'new'", "metadata"),
    ],
)
def test_what_does_not_fit_is_named_with_its_position(
    event: Event, told: str, hint: str, store: EventStore
) -> None:
    store.append(event)
    for use in (
        lambda: store.project(Price("c1")),
        lambda: store.execute(double, Price("c1")),
        store.boundary(Price("c1")).__enter__,
    ):
        with pytest.raises(InvalidEvent, match=told.format(r"event 5 \(Priced\)")) as caught:
            use()
        assert hint in caught.value.hint
    assert store.project(Price("c2")).seen == []
    assert store.head() == 5


def test_an_upcast_that_returns_nothing_is_named() -> None:
    class Forgetful(DomainEvent, type="Priced", version=2):
        course: CourseId

        @staticmethod
        @upcast(1)
        def _(data: dict[str, Any]) -> None:
            data["cents"] = 1

    with pytest.raises(InvalidEvent, match=r"from version 1 gave a NoneType") as caught:
        old({"course": "c1"}).decode(Forgetful)
    assert "return the data" in caught.value.hint


def test_a_class_of_the_first_version_does_not_misread_a_newer_one(store: EventStore) -> None:
    class First(DomainEvent, type="Priced"):
        course: CourseId

    first, second, *_ = store.read()
    assert first.decode(First).course == "c1"
    with pytest.raises(InvalidEvent, match=r"event 2 \(Priced\) has version 2, First knows up to 1"):
        second.decode(First)


class Above(DomainEvent, version=2):
    course: CourseId
    cents: int

    @upcast(1)
    @staticmethod
    def _to_cents(data: dict[str, Any]) -> dict[str, Any]:
        return {"course": data["course"], "cents": data["euros"] * 100}


def test_an_upcast_may_be_above_or_below_staticmethod() -> None:
    assert Above.from_event(Event("Above", {"course": "c1", "euros": 2})) == Above(
        course=CourseId("c1"), cents=200
    )
