"""Files with events become part of a log."""

from .job import Imported, import_events

__all__ = ["Imported", "import_events"]
