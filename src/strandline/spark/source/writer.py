"""Writing back: the rows of a DataFrame become events of a log, in the order of a column."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ...errors import InvalidEvent, InvalidInput
from ..importing.appending import append_in_order
from ..importing.rows import RowReader, check_columns
from ..importing.runs import merged, sorted_runs
from ..staging.piece import REFUSALS_TOLD, Piece
from ..staging.source import Pieces, new_folder
from .write_options import WriteOptions


class EventWriter(DataSourceArrowWriter):
    """Executors check the rows and stage them sorted; the driver's commit appends them.

    Spark hands the commit what one attempt of each task told, so that rows of a task that ran twice count once.
    """

    def __init__(self, options: WriteOptions, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise InvalidInput("a log only grows: nothing in it is overwritten", hint='use .mode("append")')
        self._order_by = check_columns(schema, options.order_by)
        self._options = options
        self._folder = new_folder(options.staging)  # before there is a store that nothing would be in
        try:
            options.check()
        except BaseException:
            self.abort([])
            raise

    def write(self, iterator: Iterator[Any]) -> Pieces:
        """Stage the rows of a task."""
        context = TaskContext.get()
        reader = RowReader(self._order_by, max_data_bytes=self._options.max_data_bytes)
        task = context.partitionId() if context else 0
        return Pieces(list(sorted_runs(iterator, self._folder, self._order_by, reader, task)))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Append what was staged."""
        pieces = [piece for message in messages if isinstance(message, Pieces) for piece in message.pieces]
        try:
            _refuse_bad(pieces)
            with self._options.connect() as store:
                append_in_order(store, lambda: merged(pieces), sum(piece.staged for piece in pieces))
        finally:
            self.abort(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what was staged."""
        shutil.rmtree(self._folder, ignore_errors=True)


def _refuse_bad(pieces: list[Piece]) -> None:
    refused = sum(piece.refused for piece in pieces)
    if refused:
        told = [refusal.why for piece in pieces for refusal in piece.refusals][:REFUSALS_TOLD]
        raise InvalidEvent(
            f"{refused:,} rows are no events, so nothing was written: {'; '.join(told)}",
            hint="correct them, or leave them out with .where(…)",
        )
