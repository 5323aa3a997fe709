"""Where executors put rows until the driver moves them: a table on PostgreSQL, files beside the log on SQLite.

Each attempt of a task writes a part of its own. Only a part that is whole is told to the driver.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, cast

import msgspec

from ...engine.following import Transaction
from ...engine.open import open_engine, place_of
from ...follow.models.incoming import Incoming
from .job import Job

if TYPE_CHECKING:
    from ...engine.postgres.transaction import PostgresTransaction

Rows = Sequence[Sequence[Any]]
LENGTH_BYTES = 4

_ROWS = msgspec.msgpack.Decoder(list[list[Any]])


class Part(Protocol):
    """What one attempt of a task writes."""

    def write(self, number: int, rows: Rows) -> None:
        """Take rows for the table of this number."""
        ...

    def commit(self) -> None:
        """It is whole."""
        ...

    def close(self) -> None:
        """Let go of everything; what was not committed is gone, or will be ignored."""
        ...


class Parts(Protocol):
    """All parts of a job, as the driver sees them."""

    def begin(self, tx: Transaction) -> None:
        """Make room, and remove what a run that was killed has left."""
        ...

    def move(self, tx: Transaction, attempts: Sequence[str]) -> int:
        """Move the rows of these attempts into the tables; returns how many there are."""
        ...

    def remove(self, tx: Transaction) -> None:
        """Remove everything, whole or not."""
        ...


def parts_of(job: Job) -> Parts:
    """The place for the parts of a job."""
    return Files(job) if job.dialect == "sqlite" else Tables(job)


def new_part(job: Job, attempt: str) -> Part:
    """A part, on an executor."""
    return FilePart(job, attempt) if job.dialect == "sqlite" else TablePart(job, attempt)


class Tables:
    """See `Parts`: one table beside each that is filled."""

    def __init__(self, job: Job) -> None:
        self._tables = [Incoming(shadow) for shadow in job.shadows]

    def begin(self, tx: Transaction) -> None:
        for table in self._tables:
            table.create(tx)

    def move(self, tx: Transaction, attempts: Sequence[str]) -> int:
        return sum(table.move(tx, attempts) for table in self._tables)

    def remove(self, tx: Transaction) -> None:
        for table in self._tables:
            table.drop(tx)


class TablePart:
    """See `Part`: rows under an id, in one transaction."""

    def __init__(self, job: Job, attempt: str) -> None:
        self._attempt = attempt
        self._statements = [Incoming(shadow).copy for shadow in job.shadows]
        self._engine = open_engine(job.url, log=job.log, clock=None, record_conditions=True, create=False)
        self._tx = cast("PostgresTransaction", self._engine.transaction())
        self._tx.begin()

    def write(self, number: int, rows: Rows) -> None:
        self._tx.copy(self._statements[number], ((self._attempt, *row) for row in rows))

    def commit(self) -> None:
        self._tx.commit()

    def close(self) -> None:
        self._tx.end()
        self._engine.close()


class Files:
    """See `Parts`: a folder for each table that is filled."""

    def __init__(self, job: Job) -> None:
        self._folders = folders(job)
        self._shadows = job.shadows

    def begin(self, tx: Transaction) -> None:
        self.remove(tx)
        for folder in self._folders:
            os.mkdir(folder, 0o700)

    def move(self, tx: Transaction, attempts: Sequence[str]) -> int:
        moved = 0
        for folder, shadow in zip(self._folders, self._shadows, strict=True):
            for attempt in attempts:
                for rows in _read(os.path.join(folder, attempt)):
                    shadow.insert(tx, rows)
                    moved += len(rows)
        return moved

    def remove(self, tx: Transaction) -> None:
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)


class FilePart:
    """See `Part`: a file in each folder."""

    def __init__(self, job: Job, attempt: str) -> None:
        self._files: list[BinaryIO] = []
        with contextlib.ExitStack() as opened:
            for folder in folders(job):
                file = opened.enter_context(open(os.path.join(folder, attempt), "xb"))
                self._files.append(file)
            self._opened = opened.pop_all()

    def write(self, number: int, rows: Rows) -> None:
        data = msgspec.msgpack.encode(rows)
        self._files[number].write(len(data).to_bytes(LENGTH_BYTES, "big") + data)

    def commit(self) -> None:
        self.close()

    def close(self) -> None:
        self._opened.close()


def folders(job: Job) -> list[str]:
    """The folders for a job's tables, beside the log."""
    path = os.path.abspath(place_of(job.url).address)
    return [f"{path}-{target.table}-incoming" for target in job.targets]


def _read(path: str) -> Iterator[list[list[Any]]]:
    with open(path, "rb") as file:
        while length := file.read(LENGTH_BYTES):
            yield _ROWS.decode(file.read(int.from_bytes(length, "big")))
