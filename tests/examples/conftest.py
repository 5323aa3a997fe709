"""What the tests of the examples share: a store on every engine, with a clock that they move."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from newest import kept, place, postgres
from places import Place
from strandline import EventStore
from strandline.testing import ManualClock, violations

__all__ = ["clock", "kept", "place", "postgres", "store"]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(place: Place, clock: ManualClock) -> Iterator[EventStore]:
    """An empty store; whatever a test did with it, every recorded condition must have held."""
    with place.connect(clock=clock) as store:
        yield store
        assert violations(store) == []
