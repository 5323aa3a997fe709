"""The data pipeline on Apache Spark: everything that reads the whole log at once."""

from .fold import fold, register_fold
from .importing import Imported, import_events
from .rebuild import Rebuilt, rebuild
from .retagging import Retagged, retag
from .session import session
from .source import register

__all__ = [
    "Imported",
    "Rebuilt",
    "Retagged",
    "fold",
    "import_events",
    "rebuild",
    "register",
    "register_fold",
    "retag",
    "session",
]
