"""Settings and recorders for every engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from logs import ENGINES, KEPT, new_log

from strandline.integrations.eventsourcing import Factory, Recorder


@pytest.fixture(params=ENGINES)
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The settings of an application on an empty log of each engine."""
    return new_log(request.param, tmp_path)


@pytest.fixture(params=KEPT)
def kept_settings(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The same for each engine whose logs several processes can open, and which stay when they end."""
    return new_log(request.param, tmp_path)


@pytest.fixture
def recorder(settings: dict[str, str]) -> Iterator[Recorder]:
    """A recorder on an empty log of each engine."""
    with Factory(settings) as factory:
        yield factory.dcb_recorder()
        factory.close()
