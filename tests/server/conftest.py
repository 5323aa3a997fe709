"""Servers for the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from serving import Client, serving

import strandline
from places import Place
from strandline import EventStore
from strandline.server import app


@pytest.fixture
def store() -> Iterator[EventStore]:
    """A store in memory, the one that `client` reaches."""
    with strandline.connect("memory:") as store:
        yield store


@pytest.fixture
def client(store: EventStore) -> Iterator[Client]:
    """A client of a server for that store."""
    with serving(app(store)) as client:
        yield client


@pytest.fixture
def everywhere(place: Place) -> Iterator[Client]:
    """A client of a server for an empty log of each engine."""
    with place.connect() as store, serving(app(store)) as client:
        yield client
