"""`strandline serve` in a process of its own, to be stopped and started again at the same port."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from places import Place

PATIENCE_SECONDS = 60


class ServerProcess:
    """A server for one log. `place` is where clients reach it."""

    def __init__(self, kept: Place) -> None:
        self._kept = kept
        self._process = self._start(0)

    def kill(self) -> None:
        """End it without a chance to finish anything."""
        self._process.kill()
        self._process.communicate(timeout=PATIENCE_SECONDS)

    def stop(self) -> None:
        """Let it finish what is under way."""
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(PATIENCE_SECONDS) == 0
        self._process.communicate(timeout=PATIENCE_SECONDS)

    @property
    def pid(self) -> int:
        """The process that serves now."""
        return self._process.pid

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Let it do nothing meanwhile."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def start_again(self) -> None:
        """Start it at the same port."""
        self._process = self._start(int(str(self.place.url).rpartition(":")[2]))

    def _start(self, port: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "strandline.cli", "serve", str(self._kept.url), "--json"]
        log = () if self._kept.log is None else ("--log", self._kept.log)
        process = subprocess.Popen(
            [*command, "--port", str(port), *log], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise AssertionError(process.communicate(timeout=PATIENCE_SECONDS)[1])
        self.place = Place(json.loads(line)["address"], self._kept.log or "default")
        return process


@contextmanager
def server_process(kept: Place) -> Iterator[ServerProcess]:
    """Serve a log from another process."""
    server = ServerProcess(kept)
    try:
        yield server
    finally:
        server.kill()
