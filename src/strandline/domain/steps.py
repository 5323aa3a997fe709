"""What a decision asks of a store, one step at a time. Generators yield steps; a store, sync or async, takes them."""

from __future__ import annotations

from collections.abc import Generator
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from ..append import AppendRequest, AppendResult
from ..event import SequencedEvent
from ..query import Query

T = TypeVar("T")


class ReadEvents(msgspec.Struct, frozen=True):
    """Read the matching events of `(after, until]`, or only the newest one; answered with `Events`."""

    query: Query
    after: int = 0
    until: int | None = None
    newest_only: bool = False


class Events(msgspec.Struct, frozen=True):
    """The events of a read, and the head that was read with them."""

    events: list[SequencedEvent]
    head: int


class Append(msgspec.Struct, frozen=True):
    """Append; answered with an `AppendResult`, a refusal is thrown in."""

    request: AppendRequest


class TellMissingTags(msgspec.Struct, frozen=True):
    """An event to be written lacks the tags of its boundary: warn, or throw in an `InvalidEvent`."""

    message: str
    hint: str


class Pause(msgspec.Struct, frozen=True):
    """Wait before the next attempt."""

    seconds: float


class AskTime(msgspec.Struct, frozen=True):
    """What time is it, by the store's clock? Answered with a datetime."""


class Count(msgspec.Struct, frozen=True):
    """How many events match? Answered with a number."""

    query: Query


Step = ReadEvents | Append | TellMissingTags | Pause | AskTime | Count
Answer = Events | AppendResult | datetime | int | None
Steps = Generator[Step, Any, T]
