"""A real server on a port of loopback, and a client that sees every byte of its answers."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from strandline.server import Application
from strandline.server.serve import Server, listen


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.body.splitlines()]


class Client:
    def __init__(self, port: int, log: str = "default", headers: dict[str, str] | None = None) -> None:
        self.port = port
        self.base = f"/v1/logs/{log}"
        self.headers = headers or {}

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        """Send a request; a body that is not bytes is sent as JSON."""
        sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if sent is not None and "content-type" not in named:
            named["content-type"] = "application/json"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            target = path if path.startswith("/") else f"{self.base}/{path}"
            connection.request(method, target, sent, self.headers | named)
            answer = connection.getresponse()
            fields: dict[str, str] = {}
            for name, value in answer.getheaders():
                known = fields.get(name.lower())
                fields[name.lower()] = value if known is None else f"{known}, {value}"
            return Reply(answer.status, fields, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Reply:
        return self.send("GET", path, **headers)

    def post(self, path: str, body: Any, **headers: str) -> Reply:
        return self.send("POST", path, body, **headers)


@contextmanager
def serving(application: Application) -> Iterator[Client]:
    """Serve an application from a thread of this process."""
    (listener,) = listen("127.0.0.1", 0)
    server = Server(application)
    thread = threading.Thread(target=server.run_on, args=([listener],))
    thread.start()
    try:
        yield Client(listener.getsockname()[1])
    finally:
        server.stop_soon()
        thread.join(30)
        assert not thread.is_alive()
