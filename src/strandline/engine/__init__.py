"""Engines: what keeps a log. This file is the protocol; the memory engine is its specification."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

import msgspec

from ..append import MAX_DATA_BYTES, AppendCondition, AppendRequest, AppendResult, Check, RecordedAppend
from ..errors import StrandlineError
from ..event import SequencedEvent
from ..query import Query
from ..retag import Retag
from .following import DeadLetter, FollowerRow, Transaction

Work = AppendRequest | Retag
Outcome = AppendResult | StrandlineError
Batch = Callable[[], Sequence[Work]]
"""Gives what is to be written in one transaction."""
Clock = Callable[[], datetime]


class Span(msgspec.Struct, frozen=True):
    """The positions `(after, until]`, forwards or backwards; `until` None is the head."""

    after: int = 0
    until: int | None = None
    backwards: bool = False

    def rest(self, head: int, last: int) -> Span | None:
        """What is left up to a head after `last` was read, None if nothing is."""
        after, until = (self.after, last - 1) if self.backwards else (last, head)
        return Span(after, until, self.backwards) if after < until else None


class Page(msgspec.Struct, frozen=True):
    """Some events, the head of the snapshot they come from, and what is left to read."""

    events: list[SequencedEvent]
    head: int
    rest: Span | None


class Stats(msgspec.Struct, frozen=True):
    """Figures about a store. `refused` counts the appends that a condition refused.

    `now` is the time by the clock that `recorded_at` comes from. `last_check` is the time of the last check that found
    nothing wrong, `last_backup` that of the last backup by Strandline; None if there was none.
    """

    engine: str
    log: UUID
    schema: int
    head: int
    appends: int
    refused: int
    types: int
    tags: int
    size_bytes: int
    now: datetime
    record_conditions: bool
    max_data_bytes: int = MAX_DATA_BYTES
    last_check: datetime | None = None
    last_backup: datetime | None = None


class Usage(msgspec.Struct, frozen=True):
    """How a type or a tag is used: by how many events, and the positions of the first and the last of them."""

    name: str
    count: int
    first: int
    last: int


class Snapshot(msgspec.Struct, frozen=True):
    """The state of a projection as of a position, kept so that the next fold begins there."""

    projection: str
    key: str
    version: str
    position: int
    state: bytes


class Engine(Protocol):
    """One log. `append` is called by one thread at a time (the sequencer sees to it), the rest by any."""

    name: str
    read_seconds: float | None
    """How long a read may take."""
    url: str
    """What another process opens the same log by, together with the log's name."""
    log: str

    def append(self, batch: Batch) -> list[Outcome]:
        """Judge and write the requests one after another, in one transaction.

        The batch is asked for when it is this process's turn to write: who comes while that is waited for goes along.
        A request that is refused has its error as outcome. Raises `Unavailable` if the database
        failed: then nothing of the batch was written, or nobody knows (`.written`).
        """
        ...

    def log_id(self) -> UUID:
        """Which log this is: the uuid that it got when it was made."""
        ...

    def head(self) -> int:
        """The last committed position, 0 if the log is empty."""
        ...

    def read_page(self, query: Query, span: Span, size: int) -> Page:
        """At most `size` matching events of the span, with the head of the same snapshot.

        A page may be short although there is more; only `rest` None means the end. `rest.until`
        is never beyond the head of this page.
        """
        ...

    async def read_page_awaited(self, query: Query, span: Span, size: int) -> Page | None:
        """`read_page` for an event loop, if it can be had without another thread; else None."""
        ...

    def exists(self, query: Query, after: int) -> bool:
        """Whether a matching event has a position greater than `after`."""
        ...

    def count(self, query: Query, after: int) -> int:
        """How many matching events have a position greater than `after`."""
        ...

    def check(self, condition: AppendCondition, most: int) -> Check:
        """What an append under the condition would meet, in one snapshot; at most so many conflicts."""
        ...

    def tracked(self, source: str) -> int | None:
        """The last position of a source that an append came with, None if there was none."""
        ...

    def now(self) -> int:
        """The time by the clock that `recorded_at` is taken from, in microseconds since 1970."""
        ...

    def position_at(self, microseconds: int) -> int:
        """The last position recorded at or before that time, 0 if none."""
        ...

    def appends_page(self, span: Span, size: int) -> list[RecordedAppend]:
        """At most `size` recorded appends that begin in the span, in its direction; empty at the end."""
        ...

    def append_holding(self, position: int) -> RecordedAppend | None:
        """The recorded append that wrote a position."""
        ...

    def types_page(self, prefix: str, after: str, size: int) -> list[Usage]:
        """At most `size` types that begin with the prefix and come after a name, in the order of their names."""
        ...

    def tags_page(self, prefix: str, after: str, size: int) -> list[Usage]:
        """The same for the tags that users gave, as events carry them now."""
        ...

    def events_at(self, positions: Sequence[int]) -> list[SequencedEvent]:
        """Return the events at these positions, as far as there are any, in the order of the log."""
        ...

    def events_with_ids(self, ids: Sequence[bytes]) -> list[SequencedEvent]:
        """Those events that have one of these ids, with their tags as appended, in the order of the log."""
        ...

    def stats(self) -> Stats:
        """Figures about the log."""
        ...

    def load_snapshot(self, projection: str, key: str) -> Snapshot | None:
        """The snapshot that was saved last."""
        ...

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Keep a snapshot, unless a newer one of the same version is kept. It may be lost at any time."""
        ...

    def transaction(self) -> Transaction:
        """A transaction, not begun yet."""
        ...

    def followers(self, name: str | None = None) -> list[FollowerRow]:
        """The follower of this name, or all of them in the order of their names."""
        ...

    def dead_letters(self, follower: str) -> list[DeadLetter]:
        """The dead letters of a follower, in order."""
        ...

    def count_dead_letters(self, follower: str) -> int:
        """How many there are."""
        ...

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """The rows of a query in the language and with the placeholders of the database, which changes nothing there."""
        ...

    @property
    def is_shared(self) -> bool:
        """Whether other processes may write to the log, so that waiting readers must look."""
        ...

    @property
    def is_far(self) -> bool:
        """Whether events travel over a network that others share, so that none should be read in vain."""
        ...

    @property
    def runs_callables(self) -> bool:
        """Whether queries and conditions may have Python functions."""
        ...

    @property
    def max_data_bytes(self) -> int | None:
        """How large the data of an event may be, if another than this store decides it."""
        ...

    @property
    def is_lost(self) -> bool:
        """Whether the log was found to lack events that this store has seen. From then on every use raises `CorruptLog`."""
        ...

    def pause(self) -> None:
        """Wait until it is time to look at the head again: a moment, or less if there is news."""
        ...

    def leave_to_parent(self) -> None:
        """Let go of what a forked process shares with its parent and must not keep."""
        ...

    def close(self) -> None:
        """Release everything; called once, after the last append."""
        ...
