"""The data pipeline on Apache Spark: everything that reads the whole log at once."""

from .audit import AuditReport, audit
from .fold import fold, register_fold
from .importing import Imported, import_events
from .lake import Exported, export, lake_files, read_lake
from .rebuild import Rebuilt, rebuild
from .report import Reported, report
from .retagging import Retagged, retag
from .session import session
from .source import register

__all__ = [
    "AuditReport",
    "Exported",
    "Imported",
    "Rebuilt",
    "Reported",
    "Retagged",
    "audit",
    "export",
    "fold",
    "import_events",
    "lake_files",
    "read_lake",
    "rebuild",
    "register",
    "register_fold",
    "report",
    "retag",
    "session",
]
