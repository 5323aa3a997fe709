"""The engines under test, and how long hypothesis searches."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from places import POSTGRES, Place, PostgresUrl, clean_environment, new_log
from served import ServedLogs, served_logs
from strandline.testing import postgres as servers
from strandline.testing.postgres import VARIABLE, PostgresServer

pytest.register_assert_rewrite("strandline.testing.conformance")

settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("long", settings.get_profile("default"), max_examples=20_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    # Workers start servers at the same time, so each has ports of its own.
    number, count = int(worker.removeprefix("gw")), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    servers.PORTS = servers.PORTS[number::count]

# In the background of a shell interrupts are ignored, also by what the tests start and then interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


# The JVMs of the tests live for seconds or minutes: half of their work would be to compile themselves.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


# Without pytest-xdist, and without -n, the tests run one after another in this process.


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """How many processes `-n auto` means: one more than there are cores, for tests often wait."""
    return min((os.cpu_count() or 1) + 1, 8)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from workers import FileByFile

    return FileByFile(config, log)


OLDER_POSTGRES = "postgres16"
ON_EVERY_POSTGRES = (
    *("tests/test_conformance.py", "tests/test_stateful.py", "tests/test_races.py"),
    *("tests/test_hazards", "tests/test_postgres_plans.py", "tests/test_postgres_function.py"),
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`make test` has conformance, random operations, races and hazards on every PostgreSQL, and all else on the newest."""
    for item in items:
        if OLDER_POSTGRES in item.name and not item.nodeid.startswith(ON_EVERY_POSTGRES):
            item.add_marker("long")


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
def postgres_url(postgres_server: Callable[[str], PostgresServer]) -> Iterator[PostgresUrl]:
    """The URL of one of `POSTGRES`: a server of our own, or the one that the environment names."""
    yield lambda name: os.environ[VARIABLE] if name == "postgres-env" else postgres_server(name).url()
    clean_environment()


@pytest.fixture(scope="session")
def served() -> Iterator[ServedLogs]:
    """A server over HTTP, whose logs come and go."""
    with served_logs() as logs:
        yield logs


@pytest.fixture
def new_place(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[str], Place]:
    """An empty log of an engine: `memory`, `sqlite`, one of `POSTGRES`, or `http:` with one of these behind a server."""

    def new_place(engine: str) -> Place:
        if engine.startswith("http:"):
            served: ServedLogs = request.getfixturevalue("served")
            stores = ExitStack()
            request.addfinalizer(stores.close)
            return stores.enter_context(served.place(new_place(engine.removeprefix("http:"))))
        if engine in POSTGRES:
            return new_log(request.getfixturevalue("postgres_url")(engine))
        return Place("memory:" if engine == "memory" else tmp_path / "log.db")

    return new_place


@pytest.fixture(params=["memory", "sqlite", *POSTGRES])
def place(request: pytest.FixtureRequest, new_place: Callable[[str], Place]) -> Place:
    """An empty log of each engine."""
    return new_place(request.param)


OVER_HTTP = ("http:sqlite", "http:postgres18")


@pytest.fixture(params=["memory", "sqlite", *POSTGRES, *OVER_HTTP])
def reached(request: pytest.FixtureRequest, new_place: Callable[[str], Place]) -> Place:
    """An empty log of each engine, and behind a server."""
    return new_place(request.param)


@pytest.fixture(params=["sqlite", *POSTGRES])
def kept(request: pytest.FixtureRequest, new_place: Callable[[str], Place]) -> Place:
    """An empty log of each engine that several processes can open, and that stays when they end."""
    return new_place(request.param)


@pytest.fixture(params=POSTGRES)
def postgres(request: pytest.FixtureRequest, new_place: Callable[[str], Place]) -> Place:
    """An empty log on each PostgreSQL."""
    return new_place(request.param)
