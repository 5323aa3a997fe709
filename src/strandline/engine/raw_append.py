"""An append with its condition as it is stored."""

from __future__ import annotations

from typing import NamedTuple

from ..append import Status


class RawAppend(NamedTuple):
    """An append; the condition is in its JSON form, None unless the status is `recorded`."""

    first: int
    last: int
    recorded_at: int
    status: Status
    condition: str | None
