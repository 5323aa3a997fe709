"""The data pipeline on Apache Spark: everything that reads the whole log at once."""

from .fold import fold, register_fold
from .importing import Imported, import_events
from .lake import Exported, export, lake_files, read_lake
from .rebuild import Rebuilt, rebuild
from .retagging import Retagged, retag
from .session import session
from .source import register

__all__ = [
    "Exported",
    "Imported",
    "Rebuilt",
    "Retagged",
    "export",
    "fold",
    "import_events",
    "lake_files",
    "read_lake",
    "rebuild",
    "register",
    "register_fold",
    "retag",
    "session",
]
