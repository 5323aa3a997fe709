"""Tags by a rule, for the events of a whole log."""

from .job import Retagged, retag

__all__ = ["Retagged", "retag"]
