"""The data source that Spark calls."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from .batch import BatchReader
from .columns import SCHEMA
from .options import Options


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
        return BatchReader(Options.of(self.options), schema)
