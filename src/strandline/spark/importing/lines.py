"""Lines of JSON as events: what executors make of text files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import msgspec

from ...append import check_size
from ...cloudevent import from_cloudevent
from ...errors import InvalidEvent, StrandlineError
from ...event import Event
from ...names import RETAGGED
from ..staging.piece import Piece, PieceWriter
from ..staging.source import Settings, StagingSource
from .columns import SCHEMA, Numbered, columns_of

if TYPE_CHECKING:
    import pyarrow as pa

READERS: dict[str, Callable[[bytes], Event]] = {"json": Event.from_json, "cloudevents": from_cloudevent}
_ONE_PER_LINE = "one event is one line: a JSON object"


class _Line(msgspec.Struct):
    """What an event does not tell of the line that it was made of."""

    id: Any = None
    type: Any = None
    recorded_at: Any = None


_LINE = msgspec.json.Decoder(_Line)  # made here, by one thread: see domain/codec.py


class Lines(StagingSource):
    """Stages the lines of text files. A piece is a split of a file, its key says in which order they come."""

    label = "lines"

    @classmethod
    def stage(cls, batches: Iterable[pa.RecordBatch], folder: str, settings: Settings) -> Iterator[Piece]:
        staging: Split | None = None
        for batch in batches:
            *keys, lines = (column.to_pylist() for column in batch.columns)
            for key, found in groupby(zip(zip(*keys, strict=True), lines, strict=True), itemgetter(0)):
                if staging is None or staging.piece.first != key:
                    if staging is not None:
                        yield staging.finished()
                    staging = Split(key, folder, settings)
                staging.add(line for _, line in found)
        if staging is not None:
            yield staging.finished()


class Split:
    """A part of a file, whose lines come one after another."""

    def __init__(self, key: tuple[int, str, int], folder: str, settings: Settings) -> None:
        self.piece = Piece(key, key, file=key[1])
        self._file = PieceWriter(folder, SCHEMA)
        self._read = READERS[settings["format"]]
        self._max_data_bytes = settings["max_data_bytes"]
        self._time_name = settings["original_time"]

    def add(self, lines: Iterable[bytes]) -> None:
        """Stage the events of more lines."""
        found = []
        for line in lines:
            self.piece.rows += 1
            if not line.strip():
                continue
            try:
                event = self._event(line)
            except StrandlineError as error:
                self.piece.refuse(error)
                continue
            if event is None:
                self.piece.skipped += 1
            else:
                found.append(event)
        self._file.write(columns_of(found))
        self.piece.staged += len(found)

    def finished(self) -> Piece:
        """The piece, when all lines were added."""
        self.piece.path = self._file.close()
        return self.piece

    def _event(self, line: bytes) -> Numbered | None:
        """The event of a line; None for those that a store writes itself."""
        try:
            told = _LINE.decode(line)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise InvalidEvent(f"not a JSON object: {error}", hint=_ONE_PER_LINE) from None
        if told.type == RETAGGED:
            return None
        try:
            event = self._read(line)
        except TypeError as error:  # the wrong kind of value where the reader did not look for it
            raise InvalidEvent(f"not the JSON form of an event: {error}", hint=_ONE_PER_LINE) from None
        if self._time_name and isinstance(told.recorded_at, str):
            event = event.with_metadata({self._time_name: told.recorded_at, **event.metadata})
        check_size((event,), self._max_data_bytes)
        return Numbered(self.piece.rows, event, told.id is not None)
