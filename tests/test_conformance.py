"""Every engine passes the suite that users get."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from places import Place
from served import ServedLogs
from strandline import EventStore
from strandline.testing.conformance import FollowerConformance, OpenStore, StoreConformance


class TestMemory(FollowerConformance, StoreConformance):
    @pytest.fixture
    def url(self) -> str:
        return "memory:"


class TestSqlite(FollowerConformance, StoreConformance):
    @pytest.fixture
    def url(self, tmp_path: Path) -> Path:
        return tmp_path / "log.db"


class TestHttp(StoreConformance):
    """A store in memory behind a server. Options of the log go to the store of the server."""

    @pytest.fixture
    def open_store(self, served: ServedLogs) -> Iterator[OpenStore]:
        with ExitStack() as stores:

            def open_store(**options: Any) -> EventStore:
                place = stores.enter_context(served.place(Place("memory:"), **options))
                return stores.enter_context(place.connect())

            yield open_store


class TestPostgres(FollowerConformance, StoreConformance):
    @pytest.fixture
    def url(self, postgres: Place) -> str | Path:
        return postgres.url

    @pytest.fixture
    def options(self, postgres: Place) -> dict[str, Any]:
        return postgres.options
