"""Which tags are missing: the rule, asked by executors over the whole log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
from pyspark import TaskContext

from ...errors import InvalidInput
from ...event import SequencedEvent, encode_metadata, join_tags, split_tags, to_microseconds
from ...names import RESERVED
from ...query import Query
from ..frames import events
from ..staging.piece import Piece, PieceWriter
from ..staging.source import Settings, StagingSource, stage
from .rule import NamedRule

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pa.schema([("position", pa.int64()), ("tags", pa.string())])

Missing = tuple[int, tuple[str, ...]]
"""A position, and the tags that its event lacks."""


class Looking(StagingSource):
    """Stages the positions of events that lack tags, with the tags."""

    label = "retag"

    @classmethod
    def stage(cls, batches: Iterable[pa.RecordBatch], folder: str, settings: Settings) -> Iterator[Piece]:
        context = TaskContext.get()
        key = (context.partitionId() if context else 0,)
        piece, file, rule = Piece(key, key), PieceWriter(folder, SCHEMA), NamedRule(settings["rule"])
        for batch in batches:
            found: list[Missing] = []
            for event in events_of(batch):
                piece.rows += 1
                try:
                    tags = () if event.type.startswith(RESERVED) else rule.missing_tags(event)
                except InvalidInput as error:
                    piece.refuse(error)
                    continue
                if tags:
                    found.append((event.position, tags))
            file.write([[position for position, _ in found], [join_tags(tags) for _, tags in found]])
            piece.staged += len(found)
        piece.path = file.close()
        yield piece


def events_of(batch: pa.RecordBatch) -> Iterator[SequencedEvent]:
    """Rows of the source as events."""
    columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
    for values in zip(*columns.values(), strict=True):
        row: dict[str, Any] = dict(zip(columns, values, strict=True))
        yield SequencedEvent(
            row["position"],
            row["type"],
            row["data"],
            join_tags(row["tags"]),
            row["stream"],
            row["subject"],
            UUID(row["id"]).bytes,
            encode_metadata(dict(row["metadata"] or ())),
            to_microseconds(row["recorded_at"]),
        )


def look(
    spark: SparkSession, url: str, rule: NamedRule, *, log: str, query: Query | None, until: int, folder: str
) -> list[Piece]:
    """Let executors ask the rule about every event up to `until`; raises what is wrong with the rule."""
    frame = events(spark, url, log=log, query=query, until=until, binary=True)
    pieces = stage(frame, Looking, folder, {"rule": rule.path})
    for piece in pieces:
        for refusal in piece.refusals:
            raise InvalidInput(
                refusal.why, hint="correct the rule: it takes an event and returns a list of tags to add"
            )
    return pieces


def missing_in(pieces: Iterable[Piece]) -> Iterator[Missing]:
    """What was staged."""
    for piece in pieces:
        for batch in piece.batches():
            positions, tags = (column.to_pylist() for column in batch.columns)
            yield from zip(positions, map(split_tags, tags), strict=True)
