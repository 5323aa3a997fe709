"""A log whose followers keep their checkpoints and tables in another database.

A follower needs a transaction in which its handler works. Over HTTP that of the server is not the client's. So the
client names a database, and what followers keep is there. Everything about events is asked of the log.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from ..append import AppendCondition, Check, RecordedAppend
from ..errors import FollowerFailed, InvalidInput
from ..event import SequencedEvent
from ..query import Query
from . import Batch, Engine, Outcome, Page, Snapshot, Span, Stats, Usage
from .following import DeadLetter, FollowerRow, Transaction
from .open import DEFAULT_LOG, open_engine, place_of

OWNER = "$followed"
"""The row that says which log the followers in a database read. No follower of a user's has such a name."""


class JoinedEngine:
    """Reads one log, and keeps what its followers keep in the database of another."""

    def __init__(self, log: Engine, kept: Engine) -> None:
        self._log = log
        self._kept = kept
        self.name, self.url, self.log = kept.name, kept.url, kept.log  # of the tables
        self.read_seconds = log.read_seconds

    # What is asked of the log.

    def append(self, batch: Batch) -> list[Outcome]:
        return self._log.append(batch)

    def log_id(self) -> UUID:
        return self._log.log_id()

    def head(self) -> int:
        return self._log.head()

    def read_page(self, query: Query, span: Span, size: int) -> Page:
        return self._log.read_page(query, span, size)

    async def read_page_awaited(self, query: Query, span: Span, size: int) -> Page | None:
        return await self._log.read_page_awaited(query, span, size)

    def exists(self, query: Query, after: int) -> bool:
        return self._log.exists(query, after)

    def count(self, query: Query, after: int) -> int:
        return self._log.count(query, after)

    def check(self, condition: AppendCondition, most: int) -> Check:
        return self._log.check(condition, most)

    def tracked(self, source: str) -> int | None:
        return self._log.tracked(source)

    def position_at(self, microseconds: int) -> int:
        return self._log.position_at(microseconds)

    def appends_page(self, span: Span, size: int) -> list[RecordedAppend]:
        return self._log.appends_page(span, size)

    def append_holding(self, position: int) -> RecordedAppend | None:
        return self._log.append_holding(position)

    def types_page(self, prefix: str, after: str, size: int) -> list[Usage]:
        return self._log.types_page(prefix, after, size)

    def tags_page(self, prefix: str, after: str, size: int) -> list[Usage]:
        return self._log.tags_page(prefix, after, size)

    def events_at(self, positions: Sequence[int]) -> list[SequencedEvent]:
        return self._log.events_at(positions)

    def events_with_ids(self, ids: Sequence[bytes]) -> list[SequencedEvent]:
        return self._log.events_with_ids(ids)

    def stats(self) -> Stats:
        return self._log.stats()

    def load_snapshot(self, projection: str, key: str) -> Snapshot | None:
        return self._log.load_snapshot(projection, key)

    def save_snapshot(self, snapshot: Snapshot) -> None:
        self._log.save_snapshot(snapshot)

    @property
    def is_shared(self) -> bool:
        return self._log.is_shared

    @property
    def is_far(self) -> bool:
        return self._log.is_far

    @property
    def runs_callables(self) -> bool:
        return self._log.runs_callables

    @property
    def max_data_bytes(self) -> int | None:
        return self._log.max_data_bytes

    @property
    def is_lost(self) -> bool:
        return self._log.is_lost or self._kept.is_lost

    def pause(self) -> None:
        self._log.pause()

    # What is asked of the other database.

    def now(self) -> int:
        return self._kept.now()  # leases are taken and judged by one clock

    def transaction(self) -> Transaction:
        return self._kept.transaction()

    def followers(self, name: str | None = None) -> list[FollowerRow]:
        return [row for row in self._kept.followers(name) if row.name != OWNER]

    def dead_letters(self, follower: str) -> list[DeadLetter]:
        return self._kept.dead_letters(follower)

    def count_dead_letters(self, follower: str) -> int:
        return self._kept.count_dead_letters(follower)

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        return self._kept.rows(sql, parameters)

    def leave_to_parent(self) -> None:
        self._kept.leave_to_parent()

    def close(self) -> None:
        """Release the other database. The log belongs to its store."""
        self._kept.close()


def join(log: Engine, into: str | os.PathLike[str]) -> JoinedEngine:
    """Open a database for the followers of a log. It is made if it is missing, and belongs to that log from then on."""
    if place_of(into).engine not in {"sqlite", "postgres"}:
        raise InvalidInput(
            "followers keep their checkpoints in a file or a PostgreSQL database",
            hint='write into="local.db"',
        )
    kept = open_engine(into, log=DEFAULT_LOG, clock=None, record_conditions=True, create=True)
    try:
        if kept.head():
            raise InvalidInput(
                "the database for a follower's checkpoint is a log of its own, which has events",
                hint='name another one, which is made if it is missing: into="local.db"',
            )
        _claim(kept, log.log_id())
    except BaseException:
        kept.close()
        raise
    return JoinedEngine(log, kept)


def _claim(kept: Engine, log_id: UUID) -> None:
    """Write down which log the followers read, or raise if it is another one."""
    mark = Query.tag(f"log:{log_id}").to_json()
    tx = kept.transaction()
    try:
        tx.begin()
        tx.create(FollowerRow(OWNER, mark, 0, 0, 0))
        row = tx.find(OWNER)
        tx.commit()
    finally:
        tx.end()
    if row is None or row.query != mark:
        raise FollowerFailed(
            "the followers in this database read another log",
            hint="name a database of its own for each log, or connect to the log that it was made for",
        )
