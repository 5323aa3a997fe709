"""Every engine passes the suite that users get."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline.testing.conformance import StoreConformance


class TestMemory(StoreConformance):
    @pytest.fixture
    def url(self) -> str:
        return "memory:"


class TestSqlite(StoreConformance):
    @pytest.fixture
    def url(self, tmp_path: Path) -> Path:
        return tmp_path / "log.db"
