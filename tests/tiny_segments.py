"""Small segments and few names kept, so that short histories cross the border between memory and file all the time."""

from __future__ import annotations

from strandline.engine.sqlite import names, pending, recent

LIMITS = (
    (recent, "SEGMENT_EVENTS", 8),
    (pending, "SETTLE_AT_LEAST", 4),
    (pending, "PACE", 1),
    (names, "MAX_KEPT", 6),
)


def make_segments_tiny() -> None:
    """For the rest of this process."""
    for module, name, value in LIMITS:
        setattr(module, name, value)
