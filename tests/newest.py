"""Fixtures for what is built on stores: each engine once, PostgreSQL in its newest version.

The older versions are held to the same answers by the tests of the engines themselves.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from places import POSTGRES, Place

NEWEST = tuple(name for name in POSTGRES if name != "postgres16")


@pytest.fixture(params=["memory", "sqlite", *NEWEST])
def place(request: pytest.FixtureRequest, new_place: Callable[[str], Place]) -> Place:
    """An empty log of each engine."""
    return new_place(request.param)


@pytest.fixture(params=["sqlite", *NEWEST])
def kept(request: pytest.FixtureRequest, new_place: Callable[[str], Place]) -> Place:
    """An empty log of each engine that several processes can open, and that stays when they end."""
    return new_place(request.param)


@pytest.fixture(params=NEWEST)
def postgres(request: pytest.FixtureRequest, new_place: Callable[[str], Place]) -> Place:
    """An empty log on PostgreSQL."""
    return new_place(request.param)
