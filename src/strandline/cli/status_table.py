"""How followers are, as rows of a table."""

from __future__ import annotations

from strandline.follow import FollowerStatus

HEADINGS = ("follower", "state", "position", "lag", "behind", "dead letters", "error")


def cells(status: FollowerStatus) -> tuple[object, ...]:
    """A row."""
    return (
        status.name,
        status.state,
        status.position,
        status.lag,
        f"{status.lag_seconds:,.1f} s" if status.lag else "",
        status.dead_letters,
        status.error,
    )
