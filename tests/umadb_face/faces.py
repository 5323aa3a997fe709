"""Servers that UmaDB's clients can talk to: ours in a thread of this process, and UmaDB's own."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import umadb

from strandline import AsyncEventStore, EventStore
from strandline.server import app
from strandline.server.grpc import GrpcFace
from strandline.server.serve import Server, listen, tls_options

PATIENCE_SECONDS = 60
_UMADB = "import sys, umadb; umadb.run_server_from_args(['umadb', *sys.argv[1:]])"


class Served(NamedTuple):
    """A server in a thread: where it listens, and how to end it."""

    grpc: str
    http: str
    server: Server

    def client(self, **options: Any) -> umadb.Client:
        """Return a client of UmaDB's Python package."""
        return umadb.Client(self.grpc, **options)


@contextmanager
def grpc_serving(
    store: EventStore | AsyncEventStore, *, tls: tuple[str | None, str | None] = (None, None), **options: Any
) -> Iterator[Served]:
    """Serve a store over HTTP and gRPC."""
    (http,), (grpc,) = listen("127.0.0.1", 0), listen("127.0.0.1", 0)
    scheme = "http" if tls[0] is None else "https"
    addresses = [f"{scheme}://localhost:{listener.getsockname()[1]}" for listener in (grpc, http)]
    application = app(store, **options)
    face = GrpcFace(application, "default", [grpc], cert=tls[0], key=tls[1])
    server = Server(application, faces=[face], **tls_options(*tls))
    started = threading.Event()
    thread = threading.Thread(target=server.run_on, args=([http], started.set))
    thread.start()
    try:
        assert started.wait(PATIENCE_SECONDS)
        yield Served(*addresses, server)
    finally:
        server.stop_soon()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()


@contextmanager
def umadb_serving(directory: Path) -> Iterator[str]:
    """Run UmaDB's own server."""
    with umadb_process(directory) as (url, _):
        yield url


@contextmanager
def umadb_process(directory: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run UmaDB's own server, as an address and a process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{probe.getsockname()[1]}"
    log = directory / "umadb.log"
    with log.open("wb") as output:
        command = [sys.executable, "-c", _UMADB, "--listen", place, "--db-path", str(directory / "uma.db")]
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        _wait_until_it_answers(f"http://{place}", process, log)
        yield f"http://{place}", process
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def _wait_until_it_answers(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            umadb.Client(url).head()
        except umadb.TransportError:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        else:
            return
