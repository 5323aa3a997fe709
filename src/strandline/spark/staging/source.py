"""The data source that executors stage with. It has no use outside of the jobs."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakKeyDictionary

import msgspec
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ...errors import NotFound
from ..failures import failures
from .piece import SHARED, Piece

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

TOLD = "pieces.json"

Settings = Mapping[str, Any]
"""What executors are told of a job, as JSON."""


class Pieces(WriterCommitMessage):
    """What a task staged."""

    def __init__(self, pieces: list[Piece]) -> None:
        self.pieces = pieces


class StagingSource(DataSource):
    """Turns rows into pieces; a job says how."""

    label: ClassVar[str]

    @classmethod
    def name(cls) -> str:
        return f"strandline_staging_{cls.label}"

    @classmethod
    def stage(cls, batches: Iterable[pa.RecordBatch], folder: str, settings: Settings) -> Iterator[Piece]:
        """The pieces of a task."""
        raise NotImplementedError

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001
        return StagingWriter(type(self), self.options["folder"], self.options["settings"])


class StagingWriter(DataSourceArrowWriter):
    """Stages on executors; on the driver, it writes down which pieces count."""

    def __init__(self, source: type[StagingSource], folder: str, settings: str) -> None:
        self._source = source
        self._folder = folder
        self._settings = settings

    def write(self, iterator: Iterator[Any]) -> Pieces:
        settings = msgspec.json.decode(self._settings)
        return Pieces(list(self._source.stage(iterator, self._folder, settings)))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        pieces = [piece for message in messages if isinstance(message, Pieces) for piece in message.pieces]
        with open(os.path.join(self._folder, TOLD), "wb") as file:
            file.write(msgspec.json.encode(pieces))


def stage(frame: DataFrame, source: type[StagingSource], folder: str, settings: Settings) -> list[Piece]:
    """Let executors stage the rows; the pieces in the order of their keys."""
    _register(frame.sparkSession, source)
    told = {"folder": folder, "settings": msgspec.json.encode(settings).decode()}
    with failures("prepare the events", hint="look at what Spark logged, then run it again"):
        frame.write.format(source.name()).options(**told).mode("append").save()
    try:
        with open(os.path.join(folder, TOLD), "rb") as file:
            pieces = msgspec.json.decode(file.read(), type=list[Piece])
    except FileNotFoundError:
        raise NotFound("the Spark driver staged where this process cannot look", hint=SHARED) from None
    return sorted(pieces, key=lambda piece: piece.first)


_registered: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()


def _register(spark: SparkSession, source: type[StagingSource]) -> None:
    """Once for a session: Spark warns of a source that it knows."""
    known = _registered.setdefault(spark, set())
    if source.label not in known:
        spark.dataSource.register(source)
        known.add(source.label)


def new_folder(parent: str | None) -> str:
    """A folder of its own for a job."""
    try:
        return tempfile.mkdtemp(prefix="strandline-staging-", dir=parent)
    except OSError as error:
        raise NotFound(
            f"nothing can be staged in {parent}: {error.strerror}",
            hint="let staging name a folder that exists",
        ) from None


@contextlib.contextmanager
def staging_folder(parent: str | None) -> Iterator[str]:
    """A folder of its own for a job, which is gone afterwards."""
    folder = new_folder(parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
