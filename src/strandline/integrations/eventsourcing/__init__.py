"""A persistence module for the `eventsourcing` library: its DCB applications, kept by Strandline.

    PERSISTENCE_MODULE=strandline.integrations.eventsourcing
    STRANDLINE_URL=school.db

`Factory` is what that library looks for here. `TrackedView` is a base for read models that keep their
state and their position in a log too. See docs/eventsourcing.md.
"""

from ...errors import MissingDependency

try:
    from .factory import Factory
    from .recorder import ReadResponse, Recorder, Subscription
    from .tracking import TrackedView
except ImportError as error:
    raise MissingDependency(
        f"strandline.integrations.eventsourcing needs the package eventsourcing, version 9.5 ({error})",
        hint="pip install 'strandline[eventsourcing]'",
    ) from error

__all__ = ["Factory", "ReadResponse", "Recorder", "Subscription", "TrackedView"]
