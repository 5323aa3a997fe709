"""Parquet files while a task writes them: some rows in memory, the rest on disk, all of it when they are closed."""

from __future__ import annotations

import os

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 65_536  # of a row group
BYTES = 32 << 20
ALL_BYTES = 128 << 20  # of all files that one task writes at once


class Staged(msgspec.Struct, frozen=True):
    """A file that a task wrote: which table it is for, where it is to be in the lake, and what is in it."""

    table: str
    path: str
    staged: str
    first: int
    last: int
    rows: int
    bytes: int


def file_name(first: int, last: int, commit: int) -> str:
    """The name of a file: the positions in it, and the commit that it came with. No file is ever changed."""
    return f"{first:012d}-{last:012d}-{commit:06d}"


class TableFile:
    """One file of a table."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.rows = 0
        self.pending_bytes = 0
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._writer: pq.ParquetWriter | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows to it."""
        self._pending.append(batch)
        self._pending_rows += batch.num_rows
        self.pending_bytes += batch.nbytes
        self.rows += batch.num_rows
        if self._pending_rows >= ROWS or self.pending_bytes >= BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is in memory, as a row group."""
        if not self._pending:
            return
        table = pa.Table.from_batches(self._pending)
        if self._writer is None:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            self._writer = pq.ParquetWriter(self.path, table.schema, compression="zstd")
        self._writer.write_table(table)
        self._pending, self._pending_rows, self.pending_bytes = [], 0, 0

    def close(self) -> int:
        """Finish it, so that it survives a power cut; its size in bytes."""
        self.flush()
        assert self._writer is not None, "a file is made for rows"
        self._writer.close()
        sync(self.path)
        return os.path.getsize(self.path)


def sync(path: str) -> None:
    """Have a file, or a folder's names, written to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_largest(files: list[TableFile]) -> None:
    """Keep the memory of all files within bounds."""
    while sum(file.pending_bytes for file in files) > ALL_BYTES:
        max(files, key=lambda file: file.pending_bytes).flush()
