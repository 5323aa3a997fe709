"""What a decision asks of a store, one step at a time. Generators yield steps; a store, sync or async, takes them."""

from __future__ import annotations

from collections.abc import Generator
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from ..append import AppendRequest, AppendResult
from ..engine import Engine, Page, Snapshot, Span
from ..event import from_microseconds
from ..query import Query

T = TypeVar("T")


class ReadEvents(msgspec.Struct, frozen=True):
    """Read the matching events of a span, or the first so many; answered with a `Page` that has them all, of one snapshot."""

    query: Query
    span: Span = Span()
    limit: int | None = None


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


class Ask(msgspec.Struct, frozen=True):
    """A question that the engine answers; it may take a while."""

    def of(self, engine: Engine) -> Any:
        """Ask."""
        raise NotImplementedError


class AskTime(Ask, frozen=True):
    """What time is it, by the clock of the log? Answered with a datetime."""

    def of(self, engine: Engine) -> datetime:
        return from_microseconds(engine.now())


class Count(Ask, frozen=True):
    """How many events match? Answered with a number."""

    query: Query

    def of(self, engine: Engine) -> int:
        return engine.count(self.query, 0)


class LoadSnapshot(Ask, frozen=True):
    """The snapshot of a projection? Answered with a `Snapshot` or None."""

    projection: str
    key: str

    def of(self, engine: Engine) -> Snapshot | None:
        return engine.load_snapshot(self.projection, self.key)


class SaveSnapshot(Ask, frozen=True):
    """Keep a snapshot."""

    snapshot: Snapshot

    def of(self, engine: Engine) -> None:
        engine.save_snapshot(self.snapshot)


Step = ReadEvents | Append | TellMissingTags | Pause | Ask
Answer = Page | AppendResult | datetime | int | Snapshot | None
Steps = Generator[Step, Any, T]
