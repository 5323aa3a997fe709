"""The engines under test, and how long hypothesis searches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from places import POSTGRES, Place, new_log
from strandline.testing.postgres import VARIABLE, PostgresServer

pytest.register_assert_rewrite("strandline.testing.conformance")

settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("long", settings.get_profile("default"), max_examples=20_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

PostgresUrl = Callable[[str], str]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Callable[[str], PostgresServer]]:
    """Starts `postgres16`, `postgres18` when a test first asks, once for all tests."""
    with ExitStack() as servers:

        @cache
        def server(name: str) -> PostgresServer:
            started = PostgresServer.start(version=int(name.removeprefix("postgres")))
            return servers.enter_context(started)

        yield server


@pytest.fixture(scope="session")
def postgres_url(postgres_server: Callable[[str], PostgresServer]) -> PostgresUrl:
    """The URL of one of `POSTGRES`: a server of our own, or the one that the environment names."""
    return lambda name: os.environ[VARIABLE] if name == "postgres-env" else postgres_server(name).url()


@pytest.fixture(params=POSTGRES)
def postgres(request: pytest.FixtureRequest, postgres_url: PostgresUrl) -> Place:
    """An empty log on each PostgreSQL."""
    return new_log(postgres_url(request.param))


@pytest.fixture(params=["memory", "sqlite", *POSTGRES])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty log of each engine."""
    if request.param == "memory":
        return Place("memory:")
    if request.param == "sqlite":
        return Place(tmp_path / "log.db")
    return new_log(request.getfixturevalue("postgres_url")(request.param))


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str | Path:
    """Where an empty log of each embedded engine is."""
    return "memory:" if request.param == "memory" else tmp_path / "log.db"
