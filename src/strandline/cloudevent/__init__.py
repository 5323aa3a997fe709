"""CloudEvents 1.0, in and out: dicts of the structured mode, their JSON, and objects of the `cloudevents` package.

That package is not needed and never imported: its objects are known by their methods.
"""

from .incoming import CloudEventObject, from_cloudevent
from .outgoing import to_cloudevent

__all__ = ["CloudEventObject", "from_cloudevent", "to_cloudevent"]
