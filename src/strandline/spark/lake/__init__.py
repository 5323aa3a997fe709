"""④ log → Spark → lake: bronze, silver and gold tables, as Parquet or Delta."""

from .export import Exported, export
from .reading import lake_files, read_lake

__all__ = ["Exported", "export", "lake_files", "read_lake"]
