"""An event with a field of every type that silver tables know, and what they show of it; executors import it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, TypedDict
from uuid import UUID

import msgspec
from academy import CourseId, StudentId

from strandline import DomainEvent


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Address(msgspec.Struct):
    street: str
    number: int | None = None


@dataclass
class Point:
    x: float
    y: float


class Size(TypedDict):
    width: int


class Tree(msgspec.Struct):
    name: str
    children: list[Tree] = []


class Everything(DomainEvent):
    course: CourseId
    students: list[StudentId]
    text: str
    number: int
    ratio: float
    either: int | float
    flag: bool
    raw: bytes
    at: datetime
    day: date
    hour: time
    span: timedelta
    price: Decimal
    uuid: UUID
    colour: Colour
    level: Level
    mixed: Literal[1, "two"]
    choice: Literal["a", "b"]
    maybe: str | None
    limited: Annotated[int, msgspec.Meta(ge=0)]
    numbers: tuple[int, ...]
    names: set[str]
    counts: dict[str, int]
    by_number: dict[int, str]
    address: Address
    addresses: list[Address]
    point: Point
    size: Size
    tree: Tree
    anything: Any
    union: int | str
    nested: list[list[int]] = []
    renamed: int = msgspec.field(name="re named", default=0)


class Small(DomainEvent):
    number: int
    at: datetime
    price: Decimal
    address: Address
    note: str = "none"


EVERYTHING = Everything(
    course=CourseId("c1"),
    students=[StudentId("s1"), StudentId("s2")],
    text="ä\0",
    number=-(1 << 63),
    ratio=0.1,
    either=2,
    flag=True,
    raw=b"\xff",
    at=datetime(2025, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
    day=date(2025, 1, 2),
    hour=time(3, 4),
    span=timedelta(hours=1),
    price=Decimal("1.10"),
    uuid=UUID(int=7),
    colour=Colour.RED,
    level=Level.HIGH,
    mixed="two",
    choice="a",
    maybe=None,
    limited=1,
    numbers=(1, 2),
    names={"x"},
    counts={"a": 1},
    by_number={1: "one"},
    address=Address("Main", 1),
    addresses=[Address("Main")],
    point=Point(1.5, 2.0),
    size={"width": 3},
    tree=Tree("root", [Tree("leaf")]),
    anything={"deep": [1, None]},
    union="text",
    nested=[[1], []],
    renamed=9,
)
SHOWN: dict[str, Any] = {
    "course": "c1",
    "students": ["s1", "s2"],
    "text": "ä\0",
    "number": -(1 << 63),
    "ratio": 0.1,
    "either": 2.0,
    "flag": True,
    "raw": b"\xff",
    "at": EVERYTHING.at,
    "day": EVERYTHING.day,
    "hour": "03:04:00",
    "span": "PT3600S",
    "price": Decimal("1.10"),
    "uuid": str(UUID(int=7)),
    "colour": "red",
    "level": 3,
    "mixed": '"two"',
    "choice": "a",
    "maybe": None,
    "limited": 1,
    "numbers": [1, 2],
    "names": ["x"],
    "counts": [("a", 1)],
    "by_number": [("1", "one")],
    "address": {"street": "Main", "number": 1},
    "addresses": [{"street": "Main", "number": None}],
    "point": {"x": 1.5, "y": 2.0},
    "size": {"width": 3},
    "tree": {"name": "root", "children": '[{"name":"leaf","children":[]}]'},  # a type inside itself is JSON
    "anything": '{"deep":[1,null]}',
    "union": '"text"',
    "nested": [[1], []],
    "re_named": 9,
}
