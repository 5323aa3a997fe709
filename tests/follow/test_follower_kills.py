"""A process that is killed at random moments has applied every event once, by hand and to its read model."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from follower_crash import Victim
from places import Place


@pytest.mark.parametrize(
    ("engine", "kills"), [("sqlite", 30), pytest.param("postgres18", 16, marks=pytest.mark.long)]
)
def test_after_many_kills_every_event_was_applied_once_and_in_order(
    engine: str, kills: int, new_place: Callable[[str], Place]
) -> None:
    victim = Victim(new_place(engine))
    for _ in range(2):
        victim.kill(kills // 2)
        victim.judge()
    assert victim.kills == kills
