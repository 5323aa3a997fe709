"""Every engine passes the suite that users get."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from places import Place
from strandline.testing.conformance import StoreConformance


class TestMemory(StoreConformance):
    @pytest.fixture
    def url(self) -> str:
        return "memory:"


class TestSqlite(StoreConformance):
    @pytest.fixture
    def url(self, tmp_path: Path) -> Path:
        return tmp_path / "log.db"


class TestPostgres(StoreConformance):
    @pytest.fixture
    def url(self, postgres: Place) -> str | Path:
        return postgres.url

    @pytest.fixture
    def options(self, postgres: Place) -> dict[str, Any]:
        return postgres.options
