"""Clients in a process of their own, for tests of a server under load."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from server_process import ServerProcess

PROGRAM = Path(__file__).with_name("http_traffic.py")
PATIENCE_SECONDS = 300


class Traffic:
    """Clients in a process of their own."""

    def __init__(self, server: ServerProcess, folder: Path, settings: dict[str, Any]) -> None:
        self._folder = folder
        port, log = str(server.place.url).rpartition(":")[2], server.place.log or "default"
        command = [sys.executable, str(PROGRAM), port, log, str(folder), json.dumps(settings)]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def finish(self) -> None:
        """Wait until every client has ended."""
        _, errors = self._process.communicate(timeout=PATIENCE_SECONDS)
        assert (self._process.returncode, errors) == (0, ""), errors

    def end(self) -> None:
        """Let the clients come to an end now."""
        (self._folder / "over").touch()
        self.finish()

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def traffic(server: ServerProcess, folder: Path, **settings: Any) -> Iterator[Traffic]:
    """Let clients work meanwhile; the settings are those of `http_traffic.py`."""
    running = Traffic(server, folder, settings)
    try:
        yield running
    finally:
        running.kill()
