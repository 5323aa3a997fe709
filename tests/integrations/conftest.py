"""Where the logs are, as users of `eventsourcing` say it: in settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from school import MAPPER, MODULE

from strandline.integrations.eventsourcing import Factory, Recorder


def where(engine: str, directory: Path) -> dict[str, str]:
    """The settings that name an empty log of an engine; a new engine is a new line here."""
    return {
        "memory": {"STRANDLINE_URL": "memory:"},
        "sqlite": {"STRANDLINE_URL": str(directory / "log.db")},
    }[engine]


@pytest.fixture(params=["memory", "sqlite"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The settings of an application on an empty log of each engine."""
    return MODULE | MAPPER | where(request.param, tmp_path)


@pytest.fixture(params=["sqlite"])
def kept_settings(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The same for each engine whose logs several processes can open, and which stay when they end."""
    return MODULE | MAPPER | where(request.param, tmp_path)


@pytest.fixture
def recorder(settings: dict[str, str]) -> Iterator[Recorder]:
    """A recorder on an empty log of each engine."""
    with Factory(settings) as factory:
        yield factory.dcb_recorder()
        factory.close()
