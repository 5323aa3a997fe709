"""Stores to follow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from places import Place
from strandline import EventStore


@pytest.fixture
def store(place: Place) -> Iterator[EventStore]:
    with place.connect() as store:
        yield store
