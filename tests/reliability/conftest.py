"""A watchdog for every test here."""

from __future__ import annotations

import faulthandler
from collections.abc import Iterator

import pytest

PATIENCE_SECONDS = 300


@pytest.fixture(autouse=True)
def watchdog() -> Iterator[None]:
    """Turn a hang into a failure that shows where every thread is."""
    faulthandler.dump_traceback_later(PATIENCE_SECONDS, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()
