"""One real server for many tests: each test gets logs of its own, at names that no other has."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from places import Place
from strandline import EventStore
from strandline.server import Application, app
from strandline.server.serve import Server, listen


class ServedLogs:
    """An ASGI application for logs that come and go."""

    def __init__(self) -> None:
        self.url = ""
        self._applications: dict[str, Application] = {}

    def serve(self, store: EventStore, **options: Any) -> Place:
        """Return the place where a store is reached over HTTP. The options are those of the application."""
        name = f"t{uuid4().hex[:12]}"
        self._applications[name] = app({name: store}, **options)
        return Place(self.url, name)

    @contextmanager
    def place(self, kept: Place, **options: Any) -> Iterator[Place]:
        """Where a log is reached over HTTP. The options are those of the server's store."""
        with kept.connect(**options) as store:
            place = self.serve(store)
            yield place
            self.forget(place)

    def forget(self, place: Place) -> None:
        """Serve a store no longer."""
        self._applications.pop(str(place.log))

    def behind(self, name: str | None) -> str:
        """Return the URL of a server that has one log only."""
        return f"{self.url}/{name}"

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        parts = scope["path"].split("/")
        if parts[1] in self._applications:
            scope = {**scope, "root_path": f"/{parts[1]}"}
        else:
            parts = parts[2:]
        await self._applications[parts[1]](scope, receive, send)

    def begin_drain(self) -> None:
        for application in self._applications.values():
            application.begin_drain()

    async def drain(self, seconds: float) -> None:
        await asyncio.gather(*(application.drain(seconds) for application in self._applications.values()))


@contextmanager
def served_logs() -> Iterator[ServedLogs]:
    """A server in a thread of this process."""
    logs = ServedLogs()
    (listener,) = listen("127.0.0.1", 0)
    logs.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    server = Server(logs)
    thread = threading.Thread(target=server.run_on, args=([listener],))
    thread.start()
    try:
        yield logs
    finally:
        server.stop_soon()
        thread.join(30)
        assert not thread.is_alive()
