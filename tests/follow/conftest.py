"""Stores to follow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from newest import kept, place, postgres
from places import Place
from strandline import EventStore

__all__ = ["kept", "place", "postgres", "store"]


@pytest.fixture
def store(place: Place) -> Iterator[EventStore]:
    with place.connect() as store:
        yield store
