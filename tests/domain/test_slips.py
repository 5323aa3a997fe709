"""Mistakes that beginners make in classes, each told where it is made."""

from __future__ import annotations

import dataclasses
import functools
import re
import sys
import types
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

import msgspec
import pytest

import strandline
from strandline import (
    DomainEvent,
    InvalidEvent,
    InvalidInput,
    Projection,
    SequencedEvent,
    TagId,
    command,
    on,
    upcast,
)
from strandline.domain import projection, shape
from strandline.follow import ReadModel
from strandline.testing import given

if TYPE_CHECKING:
    from unknown import Later  # type: ignore[import-not-found]

Define = Callable[[], Any]
SLIPS: list[Any] = []


def slip(told: str, hint: str) -> Callable[[Define], Define]:
    """A definition that is refused with these words."""

    def keep(define: Define) -> Define:
        SLIPS.append(pytest.param(define, told, hint, id=define.__name__))
        return define

    return keep


class RoomId(TagId): ...


class GuestId(TagId): ...


class RoomBuilt(DomainEvent):
    room: RoomId


class RoomTaken(DomainEvent):
    room: RoomId
    guest: str = ""


class RoomFreed(DomainEvent):
    room: RoomId


@dataclasses.dataclass
class Guests:
    names: list[str] = dataclasses.field(default_factory=list)


class Kept(msgspec.Struct, frozen=True):
    names: list[str] = []


class Price(msgspec.Struct, frozen=True):
    amount: Decimal = Decimal(0)
    currency: str = "EUR"


@dataclasses.dataclass(frozen=True)
class Stay:
    first: date
    nights: int = 1


class Size(NamedTuple):
    width: int
    depth: int


# Defaults of events.


@slip(
    r"the default of Opened.guests may change, and would do so for all events: Guests\(names=\[\]\)",
    r"guests: Guests = msgspec.field\(default_factory=Guests\)",
)
def an_object_that_all_events_would_share() -> None:
    class Opened(DomainEvent):
        room: RoomId
        guests: Guests = Guests()


@slip("Opened.lists may change", r"lists: tuple\[list\[int\], ...\] = .*default_factory=lambda: \(\[\],\)")
def a_tuple_of_what_all_events_would_share() -> None:
    class Opened(DomainEvent):
        lists: tuple[list[int], ...] = ([],)


@slip("Opened.kept may change", r"kept: Kept = msgspec.field\(default_factory=Kept\)")
def a_frozen_object_that_holds_what_all_events_would_share() -> None:
    class Opened(DomainEvent):
        kept: Kept = Kept()


@slip("Opened.guests may change", "default_factory=Guests")
def an_object_that_all_events_would_share_as_a_field() -> None:
    class Opened(DomainEvent):
        guests: Guests = msgspec.field(default=Guests())


@slip("Opened.guest is not of its type", r"guest: .*GuestId")
def nothing_for_an_id() -> None:
    class Opened(DomainEvent):
        guest: GuestId | msgspec.UnsetType = msgspec.UNSET


@slip(r"cannot be an event: .*non-empty mutable", r"names: list\[…\] = .*default_factory=lambda: \['a'\]\)")
def a_list_that_is_not_empty() -> None:
    class Opened(DomainEvent):
        room: RoomId
        names: list[str] = ["a"]


@slip("the default of Opened.guest is not of its type, GuestId: ", r"guest: GuestId \| None = None")
def none_for_an_id() -> None:
    class Opened(DomainEvent):
        guest: GuestId = None  # type: ignore[assignment]


@slip("Opened.guest: 'g' is in the place of a GuestId", r'GuestId\([\'"]g[\'"]\)')
def text_for_an_id() -> None:
    class Opened(DomainEvent):
        guest: GuestId = "g"  # type: ignore[assignment]


@slip("Opened.guests: 'g' is in the place of a GuestId", r"GuestId\('g'\)")
def text_in_a_tuple_of_ids() -> None:
    class Opened(DomainEvent):
        guests: tuple[GuestId, ...] = ("g",)  # type: ignore[assignment]


@slip("Opened.names is not of its type", r"names: list\[str\] = msgspec.field\(default_factory=list\)")
def a_field_of_dataclasses() -> None:
    class Opened(DomainEvent):
        names: list[str] = dataclasses.field(default_factory=list)


@slip("Opened.at is not of its type, datetime", r"at: datetime = .*default_factory=datetime.now\)")
def a_function_for_its_value() -> None:
    class Opened(DomainEvent):
        at: datetime = datetime.now  # type: ignore[assignment]


@slip("Opened.beds is not of its type, int: .*got `str`", "beds: int = …")
def text_for_a_number() -> None:
    class Opened(DomainEvent):
        beds: int = "2"  # type: ignore[assignment]


@slip("Opened.name is not of its type, str: .*got `array`", "name: str = …")
def a_list_for_a_text() -> None:
    class Opened(DomainEvent):
        name: str = []  # type: ignore[assignment]


# What is no field of an event, and no event.


@slip("Opened.room is no field, for it has no type", "write room: RoomId; if it is the same for all events")
def an_equals_sign_for_a_colon() -> None:
    class Opened(DomainEvent):
        room = RoomId


@slip("Opened.names is no field", r"write names: list\[str\]")
def a_list_type_behind_an_equals_sign() -> None:
    class Opened(DomainEvent):
        names = list[str]


@slip("Opened.beds is no field", "write beds: int = 2; .*beds: ClassVar")
def a_value_without_a_type() -> None:
    class Opened(DomainEvent):
        room: RoomId
        beds = 2


@slip("Opened.note is no field", r"write note: str \| None = None")
def none_without_a_type() -> None:
    class Opened(DomainEvent):
        note = None


@slip("Opened.guests is no field", r"write guests: list\[str\] = …")
def a_field_without_a_type() -> None:
    class Opened(DomainEvent):
        guests = msgspec.field(default_factory=list)


@slip("Opened.event_type is no field", r"class Opened\(DomainEvent, type='opened'\)")
def the_type_in_the_body() -> None:
    class Opened(DomainEvent):
        event_type = "opened"


@slip("Opened cannot be an event: .*__init__", "leave __init__.* away")
def an_event_with_a_beginning_of_its_own() -> None:
    class Opened(DomainEvent):
        room: RoomId

        def __init__(self, room: str) -> None: ...


@slip("Opened cannot be an event: .*__slots__", "__slots__ away")
def an_event_with_slots() -> None:
    class Opened(DomainEvent):
        __slots__ = ("room",)
        room: RoomId


@slip("Opened cannot be an event: multiple bases", "derive it from one event class")
def an_event_of_two_events() -> None:
    class Opened(RoomBuilt, RoomTaken): ...


@slip("Opened cannot be a dataclass", "leave @dataclass away")
def an_event_that_is_made_a_dataclass() -> None:
    @dataclasses.dataclass(frozen=True)
    class Opened(DomainEvent):
        room: RoomId


@slip("the upcast Opened.named does not turn", r"@staticmethod @upcast\(1\) def named\(data: dict\) -> dict")
def an_upcast_with_self() -> None:
    class Opened(DomainEvent, version=2):
        @upcast(1)
        def named(self, data: dict[str, Any]) -> dict[str, Any]:
            return data


@slip("the upcast Opened.named does not turn", "without self, async and yield")
def an_upcast_that_waits() -> None:
    class Opened(DomainEvent, version=2):
        @staticmethod
        @upcast(1)
        async def named(data: dict[str, Any]) -> dict[str, Any]:
            return data


@slip("the upcast Opened.named does not turn", "without self, async and yield")
def an_upcast_that_yields() -> None:
    class Opened(DomainEvent, version=2):
        @staticmethod
        @upcast(1)
        def named(data: dict[str, Any]) -> Any:
            yield data


# Handlers.


@slip(
    r"Room.changed \(.*test_slips.py:\d+\) has two @on, of which one would be lost",
    r"@on\(RoomBuilt, RoomFreed\)",
)
def two_marks_on_one_handler() -> None:
    class Room(Projection):
        @on(RoomBuilt)
        @on(RoomFreed)
        def changed(self, event: Any) -> None: ...


@slip("Room.changed .* has two @on", r"@on\(RoomFreed\) for all that it takes")
def two_marks_with_the_annotation() -> None:
    class Room(Projection):
        @on
        @on(RoomFreed)
        def changed(self, event: RoomFreed) -> None: ...


@slip(
    r"Room.changed \(.*test_slips.py:\d+\) is lost: there is another changed below it",
    r"@on def changed\(self, event: A \| B\)",
)
def two_handlers_of_one_name() -> None:
    class Room(Projection):
        id: RoomId

        @on
        def changed(self, event: RoomBuilt) -> None: ...
        @on  # type: ignore[no-redef]
        def changed(self, event: RoomFreed) -> None: ...  # noqa: F811


@slip("Room.taken .* is lost", "give one of them another name")
def a_field_below_the_handler_of_its_name() -> None:
    class Room(Projection):
        id: RoomId

        @on
        def taken(self, event: RoomTaken) -> None: ...

        taken: bool = False  # type: ignore[no-redef]  # noqa: F811


@slip("Room.taken .* is lost: .* or a decorator above @on", "@on goes above other decorators")
def a_decorator_that_drops_the_mark() -> None:
    def logged(function: Any) -> Any:
        return lambda self, event: function(self, event)  # noqa: PLW0108

    class Room(Projection):
        @logged
        @on
        def taken(self, event: RoomTaken) -> None: ...


@slip("@on is above a staticmethod", "without staticmethod")
def a_mark_above_what_is_static() -> None:
    class Room(Projection):
        @on(RoomTaken)
        @staticmethod
        def taken(event: RoomTaken) -> None: ...


@slip(
    r"Room.freed \(.*\) gives a value to self.freed, which is a method",
    "give the method another name: on_freed",
)
def a_handler_that_overwrites_itself() -> None:
    class Room(Projection):
        id: RoomId

        @on
        def freed(self, event: RoomFreed) -> None:
            self.freed = True  # type: ignore[assignment, method-assign]


@slip("Room.on_taken .* gives a value to self.taken, which is a method", "on_taken")
def a_handler_that_overwrites_a_method() -> None:
    class Room(Projection):
        id: RoomId

        @on
        def on_taken(self, event: RoomTaken) -> None:
            self.taken += 1

        def taken(self) -> int:
            return 1


@slip("Room.on_taken .* gives a value to self.is_taken, which is a method", "another name")
def a_handler_that_sets_what_is_computed() -> None:
    class Room(Projection):
        id: RoomId

        @on
        def on_taken(self, event: RoomTaken) -> None:
            self.is_taken = True

        @property
        def is_taken(self) -> bool:
            return True


@slip("Room.changed .* takes RoomFreed, but event is annotated with RoomBuilt", "event: RoomFreed")
def a_mark_and_an_annotation_that_differ() -> None:
    class Room(Projection):
        @on(RoomFreed)
        def changed(self, event: RoomBuilt) -> None: ...


@slip(
    r"Room.changed .* takes RoomFreed, but event is annotated with RoomBuilt \| RoomTaken",
    r"RoomBuilt \| RoomFreed",
)
def a_mark_with_more_than_the_annotation() -> None:
    class Room(Projection):
        @on(RoomBuilt, RoomFreed)
        def changed(self, event: RoomBuilt | RoomTaken) -> None: ...


@slip("given the recorded event as its second parameter, which is other: .*RoomFreed", r"event: A \| B")
def a_second_event() -> None:
    class Room(Projection):
        @on
        def changed(self, event: RoomBuilt, other: RoomFreed) -> None: ...


@slip("given the recorded event as its second parameter, which is by: .*int", "recorded: SequencedEvent")
def a_second_parameter_that_is_a_value() -> None:
    class Room(Projection):
        @on
        def changed(self, event: RoomBuilt, by: int) -> None: ...


@slip("given the recorded event as its second parameter, which is by=1", "or leave it away")
def a_second_parameter_with_a_default() -> None:
    class Room(Projection):
        @on
        def changed(self, event: RoomBuilt, by=1) -> None: ...


@slip("Room.changed .* takes an event, but is not marked", "write @on above it")
def a_handler_of_the_recorded_event_that_is_not_marked() -> None:
    class Room(Projection):
        def changed(self, event: RoomBuilt, recorded: SequencedEvent) -> None: ...


@slip("Room.changed .* takes an event, but is not marked", "write @on above it")
def a_handler_of_something_recorded_that_is_not_marked() -> None:
    class Room(Projection):
        def changed(self, event: RoomBuilt, recorded) -> None: ...


@slip("conflicts is True or False, not 'no'", "write conflicts=True, or leave it out")
def conflicts_as_text() -> None:
    class Room(Projection):
        @on(conflicts="no")  # type: ignore[call-overload]
        def changed(self, event: RoomBuilt) -> None: ...


@slip("conflicts is True or False, not 0", "write conflicts=True, or leave it out")
def conflicts_as_a_number() -> None:
    on(conflicts=0)  # type: ignore[call-overload]


# Projections.


@slip("Room.id is no field, for it has no type", "write id: RoomId; if it is a constant, id: ClassVar")
def a_key_behind_an_equals_sign() -> None:
    class Room(Projection):
        id = RoomId


@slip("Room.guests is no field", r"write guests: list\[str\] = …")
def a_state_by_field_without_a_type() -> None:
    class Room(Projection):
        id: RoomId
        guests = dataclasses.field(default_factory=list)


@slip("Room has __slots__", "leave __slots__ away")
def a_projection_with_slots() -> None:
    class Room(Projection):
        __slots__ = ("id",)
        id: RoomId


@pytest.mark.parametrize("name", ["_copy", "_fresh", "_key", "_version"])
def test_a_method_that_hides_one_of_every_projection_is_refused(name: str) -> None:
    for base in ("Projection", "Room"):
        names: dict[str, Any] = {**globals()}
        text = (
            f"class Own({base}):\n    @on\n    def {name}(self, event: RoomFreed) -> None: ...\n"
            f"class Mixin:\n    {name} = 3\nMixed = lambda: type('Mixed', (Mixin, {base}), {{}})"
        )
        with pytest.raises(InvalidInput, match=f"Own.{name} hides what every projection has") as caught:
            exec(text, names)
        assert f"another name: {name.strip('_')}_" in caught.value.hint
        exec(text[text.index("class Mixin") :], names)
        with pytest.raises(InvalidInput, match=f"Mixin.{name} hides what every projection has"):
            names["Mixed"]()


@slip("the version of Room is a whole number from 1, not 0", r"class Room\(Projection, version=2\)")
def a_version_of_nothing() -> None:
    class Room(Projection, version=0):
        id: RoomId


@slip("the version of Room is a whole number from 1, not -1", "version=2")
def a_version_before_the_first() -> None:
    class Room(Projection, version=-1):
        id: RoomId


@pytest.mark.parametrize(("define", "told", "hint"), SLIPS)
def test_a_slip_is_told_where_it_is_made(define: Define, told: str, hint: str) -> None:
    with pytest.raises(InvalidInput, match=told) as caught:
        define()
    assert re.search(hint, caught.value.hint)


# What looks like a slip and is none.


class Room(Projection):
    id: RoomId
    guest: str = ""

    @on
    def taken(self, event: RoomTaken) -> None:
        self.guest = event.guest


def test_defaults_that_cannot_change_are_right() -> None:
    class Kind(Enum):
        SINGLE = "single"

    class Opened(DomainEvent):
        room: RoomId = RoomId("r1")
        guests: frozenset[GuestId] = frozenset({GuestId("g1")})
        rooms: list[RoomId] = []
        notes: dict[str, str] = {}
        names: list[str] = msgspec.field(default_factory=lambda: ["a"])
        seen: set[int] = msgspec.field(default=set())
        price: Price = Price()
        stay: Stay = Stay(date(2026, 1, 1))
        size: Size = Size(2, 3)
        kind: Kind = Kind.SINGLE
        late: timedelta = timedelta(hours=2)
        at: datetime = msgspec.field(default_factory=lambda: datetime.now(UTC))
        level: Literal[1, 2] = 1
        beds: Annotated[int, msgspec.Meta(ge=1)] = 1
        ratio: float = 1
        anything: object = None
        raw: msgspec.Raw = msgspec.Raw(b"1")
        left_out: str | msgspec.UnsetType = msgspec.UNSET

    assert Opened(anything=1).to_event().decode(Opened).size == Size(2, 3)
    assert Opened().rooms is not Opened().rooms


def test_what_a_class_has_beside_its_fields_is_right() -> None:
    class Opened(DomainEvent):
        LIMIT = 3
        Amount = int | None
        room: RoomId
        amount: Amount = None
        unit: ClassVar = "EUR"
        _cached = None

        class Kind(Enum):
            SINGLE = 1

        class small(msgspec.Struct):  # noqa: N801
            beds: int

        @property
        def text(self) -> str:
            return f"{self.room}: {self.unit}"

        @functools.cached_property
        def long(self) -> str:
            return self.text

        shown = text
        plain = lambda self: self.room  # noqa: E731

    class State(Projection):
        Problem = ValueError
        limit = 3
        error: ClassVar = ValueError
        id: RoomId
        _hidden: int

        class line(msgspec.Struct):  # noqa: N801
            beds: int

        @on
        def opened(self, event: Opened) -> None: ...

    class Later(Opened):
        unit = "USD"

    class Rounding:
        to = Decimal

    class Strict(Rounding, State):
        error = KeyError

        def is_of(self, event: Opened):
            return event.room == self.id

        def each(self, event: Opened):
            yield event.room

        def must(self, event: Opened):
            raise NotImplementedError

        def at(self, event: Opened, recorded: SequencedEvent):
            return recorded.recorded_at

        @classmethod
        def of(cls, event: Opened):
            return cls(event.room)

    assert Later(room=RoomId("r1")).to_event().decode(Later).shown == "r1: USD"
    assert Strict("r1").is_of(Opened(room=RoomId("r1")))
    assert Opened(room=RoomId("r1")).to_event().decode(Opened).shown == "r1: EUR"
    assert State("r1").limit == 3


def test_a_field_may_be_called_as_something_of_the_class_of_classes() -> None:
    class Opened(DomainEvent):
        room: RoomId
        mro: str

    event = Opened(room=RoomId("r1"), mro="first")
    assert event.to_event().decode(Opened) == event


def test_handlers_of_all_kinds_are_right() -> None:
    def logged(function: Any) -> Any:
        @functools.wraps(function)
        def inner(self: Any, event: Any) -> None:
            function(self, event)

        return inner

    class Mixin:
        @on
        def built(self, event: RoomBuilt) -> None:
            self.beds: int = 2

    class Base(Mixin, Projection):
        id: RoomId
        beds: int = 0
        rule: Callable[[int], int] = abs
        _scratch: ClassVar[Any] = None

        @on(RoomFreed)
        def freed(self, event: DomainEvent, recorded: SequencedEvent | None = None) -> None:
            self._free = self.half = 2
            self.rule = abs

        @property
        def half(self) -> int:
            return self.beds

        @half.setter
        def half(self, value: int) -> None:
            self.beds = value

    class State(Base):
        @on
        @logged
        def freed(self, event: RoomFreed) -> None:
            self.beds += 1

        @logged
        @on(RoomTaken)
        def taken(self, event: Any) -> None:
            self.beds -= 1

        def price(self, event: RoomBuilt, factor: int) -> None: ...

    class Taking(Projection):
        id: RoomId

        @on
        def taken(self, event: RoomTaken, recorded=None) -> None: ...

    for cls, beds in ((Base, 2), (State, 3)):
        with strandline.connect("memory:") as store:
            store.append([RoomBuilt(room=RoomId("r1")), RoomFreed(room=RoomId("r1"))])
            assert store.project(cls("r1")).beds == beds


def test_handlers_may_have_the_names_that_users_call_projections_by(tmp_path: Path) -> None:
    class Taken(Projection, snapshot_every=1):
        id: RoomId
        guests: list[str] = []

        @on
        def apply(self, event: RoomTaken) -> None:  # type: ignore[override]
            self.guests.append(event.guest)

        @on
        def query(self, event: RoomFreed) -> None:  # type: ignore[override]
            self.guests.clear()

    @command
    def take(taken: Taken, guest: str) -> Iterator[RoomTaken]:
        yield RoomTaken(room=taken.id, guest=guest)

    with strandline.connect(tmp_path / "rooms.db") as store:
        for guest in ("g1", "g2", "g3"):
            store.execute(take, Taken("r1"), guest)
        assert store.project(Taken("r1")).guests == ["g1", "g2", "g3"]
        model = ReadModel(Taken, table="taken")
        model.catch_up(store)
        store.retag(1, add=["room:r2"])  # then rows are folded anew
        model.catch_up(store)
        rows = [model.get(room) for room in ("r1", "r2")]
        assert [row.guests for row in rows if row is not None] == [["g1", "g2", "g3"], ["g1"]]
        store.append(RoomFreed(room=RoomId("r1")))
        assert store.project(Taken("r1")).guests == []


def test_a_handler_may_set_what_is_no_field() -> None:
    class State(Projection):
        id: RoomId

        @on
        def taken(self, event: RoomTaken) -> None:
            self.guest = event.guest

    with strandline.connect("memory:") as store:
        store.append(RoomTaken(room=RoomId("r1"), guest="g1"))
        for _ in range(2):
            assert store.project(State("r1")).guest == "g1"


def test_one_function_may_be_a_handler_of_several_classes() -> None:
    def counted(self: Any, event: Any) -> None:
        self.count = getattr(self, "count", 0) + 1

    classes = [
        type("Counting", (Projection,), {"__annotations__": {"id": RoomId}, "counted": on(event)(counted)})
        for event in (RoomBuilt, RoomFreed)
    ]
    with strandline.connect("memory:") as store:
        store.append([RoomBuilt(room=RoomId("r1")), RoomFreed(room=RoomId("r1"))])
        assert [store.project(cls("r1")).count for cls in classes] == [1, 1]


def test_what_cannot_be_known_yet_is_no_slip() -> None:
    class Early(Projection):
        id: RoomId

        @on(RoomFreed)
        def freed(self, event: Later, recorded: Later) -> None: ...

        def other(self, event: Later, recorded: SequencedEvent) -> None: ...

    assert Early("r1").id == "r1"


def test_a_default_whose_type_comes_later_is_looked_at_later() -> None:
    names: dict[str, Any] = {"__name__": "__main__", "DomainEvent": DomainEvent}
    text = "from __future__ import annotations\nclass Opened(DomainEvent):\n    guest: Later = None\n"
    exec(text, names)
    names["Later"] = GuestId
    with pytest.raises(InvalidEvent, match=r"the default of Opened\.guest is not of its type, GuestId"):
        names["Opened"](guest=GuestId("g")).to_event()


def test_a_handler_is_judged_by_the_names_where_it_was_defined() -> None:
    modules = []
    for name in ("base_rooms", "later_rooms"):
        module = types.ModuleType(name)
        sys.modules[name] = module
        modules.append(module)
    base, later = modules
    begin = "from __future__ import annotations\nfrom strandline import *\n"
    exec(
        f"{begin}class RoomId(TagId): ...\nclass Opened(DomainEvent):\n    room: RoomId\n"
        "class Room(Projection):\n    id: RoomId\n"
        "    @on(Opened)\n    def opened(self, event: Opened): ...\n",
        vars(base),
    )
    later.__dict__["Base"] = base.__dict__["Room"]
    exec(f"{begin}class Opened(DomainEvent):\n    at: int\nclass Room(Base): ...\n", vars(later))
    assert later.__dict__["Room"]("r1").id == "r1"
    for name in ("base_rooms", "later_rooms"):
        del sys.modules[name]


def test_cells_with_two_handlers_may_be_run_again() -> None:
    names: dict[str, Any] = {"__name__": "__main__", **globals()}
    text = "class Room(Projection):\n    id: RoomId\n    @on\n    def freed(self, event: RoomFreed): ...\n"
    text += "    @on(RoomTaken)\n    def taken(self, event: RoomTaken): ...\n"
    for _ in range(3):
        exec("class RoomFreed(DomainEvent):\n    room: RoomId\n", names)
        exec(text, names)
    assert names["Room"]("r1").id == "r1"


def test_a_function_outside_of_classes_may_be_marked_again() -> None:
    names: dict[str, Any] = {**globals()}
    for _ in range(2):
        exec("@on(RoomFreed)\ndef freed(self, event): ...\n", names)
    assert names["freed"].__on__ == ((RoomFreed,), True)


# An event of no class.


@command
def take_nothing(room: Room) -> Iterator[DomainEvent]:
    yield DomainEvent()


@pytest.mark.parametrize(
    "use",
    [
        lambda store: store.append(DomainEvent()),
        lambda _: DomainEvent().to_event(),
        lambda _: DomainEvent().with_tags("a"),
        lambda _: RoomBuilt(room=RoomId("r1")).to_event().decode(DomainEvent),
        lambda store: store.decide({"room:r1"}, lambda _: [DomainEvent()]),
        lambda store: store.execute(take_nothing, Room("r1")),
        lambda _: given(DomainEvent()),
    ],
)
def test_an_event_of_no_class_is_refused(use: Callable[[Any], Any]) -> None:
    with strandline.connect("memory:") as store:
        with pytest.raises(InvalidEvent, match="a DomainEvent itself has no type") as caught:
            use(store)
        assert store.head() == 0
    assert "class CourseDefined(DomainEvent)" in caught.value.hint


def test_a_state_keeps_the_mere_object_that_it_begins_with() -> None:
    @command
    def take(state: Titled) -> Iterator[RoomTaken]:
        seen.append(state.title is MISSING)
        yield RoomTaken(room=state.id)

    seen: list[bool] = []
    with strandline.connect("memory:") as store:
        for _ in range(3):
            store.execute(take, Titled("r1"))
            assert store.project(Titled("r1")).title is MISSING
    assert seen == [True, True, True]
    state = Titled("r1")
    with pytest.MonkeyPatch.context() as patch:
        for _ in range(2):
            assert state._copy().title is MISSING
            patch.setattr(projection, "native", None)


MISSING = object()


class Titled(Projection):
    id: RoomId
    title: object = MISSING

    @on
    def taken(self, event: RoomTaken) -> None: ...


class CountedId(TagId):
    made: ClassVar[list[str]] = []

    def __init__(self, value: str) -> None:
        self.made.append(str(value))


class CountedTaken(DomainEvent):
    room: CountedId


class Counted(Projection):
    id: CountedId

    @on
    def taken(self, event: CountedTaken) -> None: ...


@pytest.mark.parametrize("is_native", [True, False])
def test_an_id_that_begins_in_its_own_way_does_so(is_native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_native:
        monkeypatch.setattr(projection, "native", None)
        monkeypatch.setattr(shape, "native", None)
    CountedId.made.clear()
    assert Counted("r1").id == "r1"
    assert CountedId.made == ["r1"]
