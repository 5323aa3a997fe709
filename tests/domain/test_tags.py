"""Typed ids are tags wherever a tag goes: events, queries, keys of projections, retags."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import permutations
from typing import Any
from uuid import UUID

import pytest
from enrolment import Course, CourseDefined, CourseId, Enrollment, Student, StudentId, StudentSubscribed

from places import Place
from strandline import (
    AppendConditionFailed,
    DomainEvent,
    Event,
    EventStore,
    InvalidEvent,
    InvalidInput,
    InvalidQuery,
    Projection,
    Query,
    QueryItem,
    TagId,
    command,
    on,
)
from strandline.retag import Retag

ORDER = UUID(int=7)


class WalletId(TagId): ...


class OrderId(TagId): ...


class MoneyMoved(DomainEvent):
    source: WalletId
    target: WalletId
    amount: int


class OrderPlaced(DomainEvent):
    order: OrderId
    wallets: set[WalletId] = set()
    gifts: tuple[WalletId, ...] = ()
    coupon: CourseId | None = None


class Wallet(Projection):
    id: WalletId
    balance: int = 0

    @on
    def moved(self, event: MoneyMoved) -> None:
        self.balance += event.amount * ((event.target == self.id) - (event.source == self.id))

    @on
    def placed(self, event: OrderPlaced) -> None:
        self.balance -= 1


class Order(Projection):
    id: OrderId
    exists: bool = False

    @on
    def placed(self, event: OrderPlaced) -> None:
        self.exists = True


@command
def place_order(order: Order, wallet: Wallet) -> Iterator[OrderPlaced]:
    if not order.exists:
        yield OrderPlaced(order=order.id, wallets={wallet.id})


@pytest.fixture
def store(place: Place) -> Iterator[EventStore]:
    with place.connect() as store:
        yield store


def subscribed(student: str, course: str) -> StudentSubscribed:
    return StudentSubscribed(student=StudentId(student), course=CourseId(course))


def test_an_event_has_any_number_of_tags_of_one_kind(store: EventStore) -> None:
    store.append(
        [
            MoneyMoved(source=WalletId("a"), target=WalletId("b"), amount=5),
            OrderPlaced(
                order=OrderId(ORDER),
                wallets={WalletId("b"), WalletId("c")},
                gifts=(WalletId("d"), WalletId("c")),
            ),
            OrderPlaced(order=OrderId(1)),
        ]
    )
    assert [event.tags for event in store.read()] == [
        ("wallet:a", "wallet:b"),
        (f"order:{ORDER}", "wallet:b", "wallet:c", "wallet:d"),
        ("order:1",),
    ]
    assert [store.project(Wallet(name)).balance for name in "abcd"] == [-5, 4, -1, -1]
    assert [event.decode(OrderPlaced).gifts for event in store.read(Query.types(OrderPlaced))] == [
        (WalletId("d"), WalletId("c")),
        (),
    ]


def test_numbers_and_uuids_are_keys(store: EventStore) -> None:
    assert store.execute(place_order, Order(ORDER), Wallet(7)).count == 1
    assert store.execute(place_order, Order(str(ORDER)), Wallet("7")).count == 0
    assert store.execute(place_order, order=ORDER, wallet=8).count == 0  # type: ignore[arg-type]
    assert store.project(Order, ORDER).exists
    assert store.project(Wallet, 7).balance == -1
    assert store.project(Wallet(WalletId(7))) == store.project(Wallet("7"))
    for wrong in (True, 1.5, None, CourseId("7")):
        with pytest.raises(InvalidInput):
            Wallet(wrong)  # type: ignore[arg-type]


class EveningCourseId(CourseId): ...


def test_a_tag_is_of_the_kind_that_the_field_is_annotated_with(store: EventStore) -> None:
    store.append(CourseDefined(course=EveningCourseId("c1"), capacity=3))
    (event,) = store.read()
    assert event.tags == (event.decode(CourseDefined).course.tag,) == ("course:c1",)
    assert store.project(Course("c1")).capacity == 3


def test_an_event_may_carry_more_tags_than_its_fields(store: EventStore) -> None:
    event = CourseDefined(course=CourseId("c1"), capacity=3).with_tags("vip", StudentId("s1"), "vip")
    assert type(event) is Event
    assert event.tags == ("course:c1", "student:s1", "vip")
    store.append(event)
    assert store.exists(Query.tag("vip", StudentId("s1")))
    with store.boundary(Course("c1")) as boundary:
        boundary.append(subscribed("s2", "c1").with_tags("vip"))
    assert store.count(Query.tag("vip")) == 2
    assert store.project(Course("c1")).taken == 1
    with pytest.raises(InvalidEvent, match="reserved"):
        CourseDefined(course=CourseId("c1"), capacity=3).with_tags("$x")


def test_queries_take_classes_and_ids(store: EventStore) -> None:
    store.append(
        [CourseDefined(course=CourseId("c1"), capacity=3), subscribed("s1", "c1"), subscribed("s1", "c2")]
    )
    item = QueryItem(types=[StudentSubscribed, "CourseDefined"], tags=[CourseId("c1")])
    assert item == QueryItem(["CourseDefined", "StudentSubscribed"], ["course:c1"])
    assert store.count(Query.of(item)) == 2
    assert store.count(Query.types(StudentSubscribed)) == 2
    assert store.count(Query.tag(CourseId("c1"), StudentId("s1"))) == 1
    assert store.count(Query.of(QueryItem(exclude_types=[CourseDefined], tags=[CourseId("c1")]))) == 1
    assert store.exists(Query.types(CourseDefined) & Query.tag(CourseId("c1")))
    assert not store.exists(Query.types(CourseDefined) & Query.tag(CourseId("c2")))
    assert not store.exists(Query.types(CourseDefined), after=1)
    for wrong in (DomainEvent, int, Course):
        with pytest.raises(InvalidQuery, match="a type is a str"):
            Query.types(wrong)  # type: ignore[arg-type]


def test_an_id_is_text_in_untyped_data_metadata_and_matchers(store: EventStore) -> None:
    course, student = CourseId("c1"), StudentId("s1")
    event = Event("Noted", {"course": course, course: [student]}, tags=[course], metadata={"by": student})
    store.append(event)
    (noted,) = store.read(Query.of(QueryItem(where={"course": course, "$metadata": {"by": student}})))
    assert noted.json() == {"course": "c1", "c1": ["s1"]}
    assert noted.metadata == {"by": "s1"}
    assert Event.from_json(event.to_json()) == event
    with pytest.raises(InvalidEvent, match="a value of the type object has no JSON form"):
        Event("Noted", {"what": object()})


def test_several_keys_are_folded_from_events_with_all_their_tags(store: EventStore) -> None:
    store.append([subscribed("s1", "c1"), subscribed("s2", "c2")])
    assert store.project(Enrollment, "s1", "c1").exists
    assert not store.project(Enrollment, "s1", "c2").exists


def test_events_are_retagged_by_position_and_by_query_with_typed_ids(store: EventStore) -> None:
    store.append([subscribed("s1", "c1"), subscribed("s1", "c2"), subscribed("s2", "c2")])
    assert store.retag(1, add=[StudentId("s3")]).count == 1
    assert store.project(Student("s3")).courses == 1
    assert store.retag(Query.tag(StudentId("s2")), replace={"student": [StudentId("s4"), "s5"]}).count == 1
    assert [store.project(Student(name)).courses for name in ("s2", "s4", "s5")] == [0, 1, 1]
    assert store.retag([1, 2], replace={StudentId: []}).count == 1
    assert store.project(Student("s1")).courses == 0
    assert [event.tags for event in store.read(Query.types(StudentSubscribed))] == [
        ("course:c1",),
        ("course:c2",),
        ("course:c2", "student:s4", "student:s5"),
    ]
    head = store.head()
    with pytest.raises(InvalidInput, match="does not replace tags student:") as caught:
        store.retag(1, replace={"student": [CourseId("c9")]})
    assert "replace={'course': […]}" in caught.value.hint
    assert store.head() == head


class Username(TagId):
    """Told apart whatever the case."""

    @property
    def tag(self) -> str:
        return f"username:{self.lower()}"


class Sku(TagId):
    """Written in capitals."""

    def __new__(cls, value: str) -> Sku:
        return super().__new__(cls, value.upper())


def test_a_retag_by_the_class_of_an_id_asks_the_class_for_the_tag(store: EventStore) -> None:
    store.append(Event("A", {}, tags=[Username("Ann"), Sku("a1"), "order:1"]))
    changed = store.retag(1, replace={Username: ["BOB"], Sku: ["b2"], OrderId: [2, ORDER]})
    assert changed.count == 1
    (event, *_) = store.read()
    assert event.tags == (f"order:{ORDER}", "order:2", "sku:B2", "username:bob")
    store.retag(1, replace={"username": [Username("EVE")]})
    assert store.exists(Query.tag("username:eve"))


@pytest.mark.parametrize("key", ["course", CourseId])
@pytest.mark.parametrize("value", [None, 1.5, "", True, b"c2", ["c2"], StudentId])
def test_a_retag_takes_no_value_that_is_no_id(key: Any, value: Any) -> None:
    with pytest.raises(InvalidInput, match="a value of the tags course:") as caught:
        Retag(1, replace={key: [value]})
    assert caught.value.hint


def test_a_retag_takes_numbers_and_uuids_as_an_id_does(store: EventStore) -> None:
    store.append(Event("A", {}, tags=["course:c1"]))
    store.retag(1, replace={"course": [7, ORDER]})
    assert store.exists(Query.tag(CourseId(7), CourseId(ORDER)))


def retag_meanwhile(store: EventStore) -> None:
    with store.boundary(Student("s2")) as boundary:
        store.retag(1, replace={"student": [StudentId("s2")]})
        boundary.append(subscribed("s2", "c3"))


def test_a_retag_refuses_a_decision_that_did_not_see_it(store: EventStore) -> None:
    store.append(subscribed("s1", "c1"))
    with pytest.raises(AppendConditionFailed) as caught:
        retag_meanwhile(store)
    assert caught.value.conflict.type == "$retagged"
    assert store.project(Student("s2")).courses == 1


def test_async_stores_take_typed_ids_and_classes(place: Place) -> None:
    async def main() -> None:
        async with place.connect_async() as store:
            await store.append(
                [subscribed("s1", "c1"), MoneyMoved(source=WalletId(1), target=WalletId(2), amount=1)]
            )
            assert await store.exists(Query.types(StudentSubscribed) & Query.tag(StudentId("s1")))
            assert (await store.retag(Query.types(MoneyMoved), replace={"wallet": [WalletId(3)]})).count == 1
            assert (await store.project(Wallet, 3)).balance == 0
            assert await store.count(Query.tag(WalletId(3))) == 1

    asyncio.run(main())


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (CourseDefined(course=1.5, capacity=1), "a CourseId is text, a whole number or a UUID, not float"),  # type: ignore[arg-type]
        (
            CourseDefined(course=StudentId("c1"), capacity=1),
            r"StudentId\('c1'\) is in the place of a CourseId",
        ),  # type: ignore[arg-type]
        (CourseDefined(course=CourseId("c1"), capacity="1"), "Expected `int`, got `str`"),  # type: ignore[arg-type]
        (CourseDefined(course=CourseId("x" * 300), capacity=1), "1 to 256 characters"),
        (CourseDefined(course=CourseId("\n"), capacity=1), "no control characters"),
        (OrderPlaced(order=OrderId(1), gifts=tuple(map(WalletId, range(64)))), "at most 64 tags"),
        (OrderPlaced(order=OrderId("\ud800")), "surrogates"),
    ],
)
def test_what_could_not_be_found_or_read_again_is_not_written(
    event: DomainEvent, told: str, store: EventStore
) -> None:
    with pytest.raises(InvalidEvent, match=told) as caught:
        store.append(event)
    assert caught.value.hint
    assert store.head() == 0


class Grouped(DomainEvent):
    students: set[StudentId]
    notes: frozenset[str] = frozenset()
    more: dict[str, set[int]] = {}
    mixed: set[int | str] = set()


MAKE = """
import sys; sys.path[:0] = {path!r}
from test_tags import Grouped, StudentId
names = [f"s{{n}}" for n in range({first}, {last}, {step})]
more = {{name: {{1, 20, 300}} for name in names}}
students = {{StudentId(name) for name in names}}
print(Grouped(students=students, notes=frozenset(names), more=more).to_event().to_json())
"""


def test_the_same_sets_are_the_same_data_in_every_process(store: EventStore) -> None:
    def made(seed: int, *, turned: bool) -> Event:
        first, last, step = (19, -1, -1) if turned else (0, 20, 1)
        program = MAKE.format(path=sys.path, first=first, last=last, step=step)
        environment = os.environ | {"PYTHONHASHSEED": str(seed)}
        told = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        return Event.from_json(told.stdout)

    events = [made(seed, turned=turned) for seed, turned in ((1, False), (2, False), (3, True))]
    assert len({event.data for event in events}) == 1
    ids = UUID(int=7)
    repeats = [store.append(Event(event.type, event.data, tags=event.tags, id=ids)) for event in events]
    assert [result.duplicate for result in repeats] == [False, True, True]
    mixed = Grouped(students=set(), mixed={1, "a", 2})  # what has no order is written all the same
    assert mixed.to_event().json()["mixed"] in ([*each] for each in permutations([1, "a", 2]))
