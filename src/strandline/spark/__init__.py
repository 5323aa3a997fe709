"""The data pipeline on Apache Spark: everything that reads the whole log at once."""

from .fold import fold, register_fold
from .rebuild import Rebuilt, rebuild
from .session import session
from .source import register

__all__ = ["Rebuilt", "fold", "rebuild", "register", "register_fold", "session"]
