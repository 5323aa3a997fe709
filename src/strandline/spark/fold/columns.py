"""The columns of a table that is folded: an event, once for each key that it belongs to."""

from __future__ import annotations

KEY = "key"
SEPARATOR = "\n"
"""Between the values of a key: no tag contains it. If there are several projections, the number of one comes first."""
NEEDED = ("position", "type", "data")
"""Without these nothing can be folded."""
RECORDED = ("tags", "stream", "subject", "id", "metadata", "recorded_at")
"""What only handlers look at that take the recorded event."""
