"""UmaDB through its own Python client, against the server that its wheel brings, on loopback.

The client is synchronous (there is no asyncio one in the package); threads share one of it, which
was at least as fast here as one client per thread. Events get no uuid: that is its default.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..homes import HomeName
from ..workload import NewEvent, Query
from . import AsyncClient, Client, Refused, Running

RUN_SERVER = "import sys, umadb; umadb.run_server_from_args(['umadb', *sys.argv[1:]])"
START_SECONDS = 20


class UmaDB:
    """The server with its default settings."""

    name = "umadb"
    home: HomeName = "embedded"
    prefilled_as = "umadb"
    is_async = False
    has_commands = False
    is_face = False
    is_fast = False
    durability = "fdatasync before every acknowledgement (group commit)"
    options: tuple[str, ...] = ()

    def version(self) -> str:
        import umadb  # noqa: F401

        return version("umadb")

    @contextmanager
    def serve(self, place: str) -> Iterator[Running]:
        directory = Path(place)
        listen = f"127.0.0.1:{_free_port()}"
        options = ["--listen", listen, "--db-path", str(directory / "uma.db"), *self.options]
        with (directory / "server.log").open("wb") as log:
            server = subprocess.Popen([sys.executable, "-c", RUN_SERVER, *options], stdout=log, stderr=log)
        try:
            _wait_until_it_answers(server, f"http://{listen}", directory / "server.log")
            yield Running(f"http://{listen}", server.pid)
        finally:
            server.terminate()
            try:
                server.wait(START_SECONDS)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
            (directory / "server.log").unlink(missing_ok=True)

    @contextmanager
    def connect(self, address: str, *, keeps_states: bool = False) -> Iterator[Client]:
        import umadb

        client = umadb.Client(address)
        try:
            yield UmaDBClient(client)
        finally:
            client.close()

    def connect_async(
        self, address: str, *, keeps_states: bool = False
    ) -> AbstractAsyncContextManager[AsyncClient]:
        raise NotImplementedError


class UmaDBFast(UmaDB):
    """The server with what its `--help` has to offer for speed: mapped reads, a page cache, a pipelined writer."""

    name = prefilled_as = "umadb-fast"  # with a place of its own: one server at a time can have it
    is_fast = True
    durability = "the same through io_uring, into which strace does not see"
    options = ("--read-method=mmap", "--page-cache-max-mb=256", "--pipelined-writer=true")


class UmaDBClient:
    """See `Client`."""

    def __init__(self, client: Any) -> None:
        import umadb

        self._umadb = umadb
        self._client = client

    def head(self) -> int:
        return self._client.head() or 0

    def append(self, event: NewEvent, query: Query, after: int) -> int:
        condition = self._umadb.AppendCondition(self._query(query), after or None)
        try:
            position: int = self._client.append([self._event(event)], condition)
        except self._umadb.IntegrityError as refusal:
            raise Refused from refusal
        return position

    def append_batch(self, events: Sequence[NewEvent]) -> None:
        self._client.append([self._event(event) for event in events])

    def read(self, query: Query) -> tuple[int, int]:
        response = self._client.read(self._query(query))
        count = self._look_at(response)
        return response.head() or 0, count

    def scan(self) -> int:
        return self._look_at(self._client.read())

    @contextmanager
    def subscribe(self, query: Query, after: int) -> Iterator[Iterator[object]]:
        events = self._client.subscribe(self._query(query), after)
        try:
            yield _until_cancelled(iter(events), self._umadb.CancelledByUserError)
        finally:
            events.cancel()

    def _look_at(self, response: Any) -> int:
        count = 0
        for sequenced in response:
            event = sequenced.event
            _ = event.event_type, event.data
            count += 1
        return count

    def _event(self, event: NewEvent) -> Any:
        return self._umadb.Event(event.type, event.data, event.tags)

    def _query(self, query: Query) -> Any:
        return self._umadb.Query([self._umadb.QueryItem(item.types, item.tags) for item in query])


def _until_cancelled(events: Iterator[object], cancelled: type[Exception]) -> Iterator[object]:
    try:
        yield from events
    except cancelled:
        return


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_it_answers(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    import umadb

    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            umadb.Client(url).head()
        except Exception as error:
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the UmaDB server does not answer: {log.read_text()}") from error
            time.sleep(0.02)
        else:
            return
