"""Whatever a projection declares, a store folds into it what a look at every event would."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from places import Place
from strandline import DomainEvent, EventStore, Projection, Query, QueryItem, TagId, on


class XId(TagId): ...


class YId(TagId): ...


class A(DomainEvent):
    number: int
    x: XId | None = None
    ys: list[YId] = []


class B(DomainEvent):
    number: int
    x: XId | None = None
    ys: list[YId] = []


class C(DomainEvent, type="see"):
    number: int
    x: XId | None = None
    ys: list[YId] = []


KINDS = {"x": XId, "y": YId}
VALUES = st.sampled_from(["1", "2", "3"])
EVENTS = st.builds(
    lambda cls, number, x, ys: cls(number=number, x=x, ys=ys),
    st.sampled_from([A, B, C]),
    st.integers(0, 9),
    st.none() | VALUES.map(XId),
    st.lists(VALUES.map(YId), max_size=2),
)


class Declared(NamedTuple):
    """What a projection is declared with."""

    key: dict[str, str]
    handled: dict[type[DomainEvent], bool]
    last_only: bool

    def projection(self) -> Any:
        members: dict[str, Any] = {
            "__annotations__": {**{name: KINDS[name] for name in self.key}, "seen": list[Any]},
            "seen": [],
        }
        for cls, conflicts in self.handled.items():
            members[f"on_{cls.__name__}"] = on(cls, conflicts=conflicts)(handler())
        return type("Declared", (Projection,), members, last_only=self.last_only)(*self.key.values())

    def naive(self, store: EventStore) -> list[Any]:
        item = QueryItem(
            [cls.event_type for cls in self.handled], [f"{name}:{value}" for name, value in self.key.items()]
        )
        seen = [(event.position, event.json()["number"]) for event in store.read() if item.matches(event)]
        return seen[-1:] if self.last_only else seen


def handler() -> Any:
    def see(self: Any, event: Any, recorded: Any) -> None:
        self.seen.append((recorded.position, event.number))

    return see


DECLARED = st.builds(
    Declared,
    st.dictionaries(st.sampled_from(["x", "y"]), VALUES, max_size=2),
    st.dictionaries(st.sampled_from([A, B, C]), st.booleans(), min_size=1),
    st.booleans(),
)
RETAGS = st.tuples(st.integers(1, 9), st.sampled_from(["x", "y"]), st.lists(VALUES, max_size=2))
HISTORY = st.lists(st.lists(EVENTS, min_size=1, max_size=4) | RETAGS, max_size=6)


def write(store: EventStore, history: list[Any]) -> None:
    for step in history:
        if isinstance(step, list):
            store.append(step)
            continue
        position, prefix, values = step
        if position in {event.position for event in store.read(Query.user())}:
            store.retag(position, replace={prefix: [KINDS[prefix](value) for value in values]})


def test_folding_is_a_look_at_every_event(place: Place) -> None:
    @given(HISTORY, st.lists(DECLARED, min_size=1, max_size=4))
    @settings(max_examples=15 if place.is_in_database else settings().max_examples)
    def agree(history: list[Any], declared: list[Declared]) -> None:
        with place.another().connect() as store:
            write(store, history)
            expected = [one.naive(store) for one in declared]
            projections = [one.projection() for one in declared]
            assert [store.project(projection).seen for projection in projections] == expected
            with store.boundary(*projections) as boundary:
                assert [state.seen for state in boundary.states] == expected
                read = [(event.position, event.json()["number"]) for event in boundary.events]
                assert read == sorted({seen for each in expected for seen in each})

    agree()
