"""Settings and recorders for each engine once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from logs import settings_for

from newest import kept, place, postgres
from places import Place
from strandline.integrations.eventsourcing import Factory, Recorder

__all__ = ["kept", "kept_settings", "place", "postgres", "recorder", "settings"]


@pytest.fixture
def settings(place: Place) -> dict[str, str]:
    """The settings of an application on an empty log of each engine."""
    return settings_for(place)


@pytest.fixture
def kept_settings(kept: Place) -> dict[str, str]:
    """The same for each engine whose logs several processes can open, and which stay when they end."""
    return settings_for(kept)


@pytest.fixture
def recorder(settings: dict[str, str]) -> Iterator[Recorder]:
    """A recorder on an empty log of each engine."""
    with Factory(settings) as factory:
        yield factory.dcb_recorder()
        factory.close()
