"""An event with a field of every type that silver tables know, in a module that executors import."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
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
