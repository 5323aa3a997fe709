"""The data source that Spark calls."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, DataSourceWriter
from pyspark.sql.types import StructType

from .batch import BatchReader
from .columns import SCHEMA
from .options import BATCH, STREAM, Options
from .pushdown import PushdownReader
from .stream import StreamReader
from .write_options import WriteOptions


class StrandlineSource(DataSource):
    """A log as a table of events."""

    @classmethod
    def name(cls) -> str:
        """What `format` calls it."""
        return "strandline"

    def schema(self) -> str:
        """All columns."""
        Options.of(self.options)
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads once."""
        options = Options.of(self.options, BATCH)
        return PushdownReader(options, schema) if options.pushdown else BatchReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Reads as the log grows."""
        return StreamReader(Options.of(self.options, STREAM), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001  (Spark calls it so)
        """Appends rows, in the order of a column."""
        from .writer import EventWriter

        return EventWriter(WriteOptions.of(self.options), schema, overwrite=overwrite)
