"""A piece: rows that a task staged in a file, and what it has to say about them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from ...errors import NotFound

BATCH = 1_000
REFUSALS_TOLD = 5
SHARED = "on a cluster, let staging name a folder that all its machines share"


class Refusal(msgspec.Struct, frozen=True):
    """A row that cannot be used, by its number in its piece, and why."""

    row: int
    why: str


class Piece(msgspec.Struct):
    """Rows in their order, from the key `first` to the key `last`.

    They come from `file`, if from any; `path` is where they are staged, empty if none is.
    """

    first: tuple[Any, ...]
    last: tuple[Any, ...]
    path: str = ""
    file: str = ""
    rows: int = 0
    staged: int = 0
    skipped: int = 0
    refused: int = 0
    refusals: list[Refusal] = []

    def refuse(self, why: object) -> None:
        """Say what is wrong with the row that is looked at."""
        self.refused += 1
        if len(self.refusals) < REFUSALS_TOLD:
            self.refusals.append(Refusal(self.rows, str(why)))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """What was staged, batch by batch."""
        if not self.path:
            return
        try:
            file = pq.ParquetFile(self.path)
        except FileNotFoundError:
            raise NotFound("the driver does not see what executors staged", hint=SHARED) from None
        with file:
            yield from file.iter_batches(BATCH)


class PieceWriter:
    """Writes the file of a piece; without rows there is none."""

    def __init__(self, folder: str, schema: pa.Schema) -> None:
        self._path = os.path.join(folder, f"{uuid4().hex}.parquet")
        self._schema = schema
        self._file: pq.ParquetWriter | None = None

    def write(self, columns: Sequence[Sequence[Any]]) -> None:
        """More rows, as columns in the order of the schema."""
        batch = pa.RecordBatch.from_arrays(
            [pa.array(values, field.type) for values, field in zip(columns, self._schema, strict=True)],
            schema=self._schema,
        )
        if batch.num_rows:
            if self._file is None:
                self._file = self._opened()
            self._file.write_batch(batch)

    def _opened(self) -> pq.ParquetWriter:
        try:
            return pq.ParquetWriter(self._path, self._schema, compression="lz4")
        except FileNotFoundError:
            raise NotFound("an executor does not see the driver's folder", hint=SHARED) from None

    def close(self) -> str:
        """The file's path."""
        if self._file is None:
            return ""
        self._file.close()
        return self._path
