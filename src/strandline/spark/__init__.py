"""The data pipeline on Apache Spark: everything that reads the whole log at once."""

from .session import session
from .source import register

__all__ = ["register", "session"]
