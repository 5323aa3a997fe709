"""A follower that is killed at random moments has applied every event once, and none by halves."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from follower_crash import Victim
from places import Place

KILLS = 15


@pytest.mark.parametrize("engine", ["sqlite", "postgres18"])
def test_after_many_kills_every_event_was_applied_once_and_in_order(
    engine: str, new_place: Callable[[str], Place]
) -> None:
    victim = Victim(new_place(engine))
    for _ in range(3):
        victim.kill(KILLS // 3)
        victim.judge()
    assert victim.kills == KILLS
