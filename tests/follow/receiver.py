"""A server on loopback that takes webhooks, or does not."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Receiver:
    """Keeps what it got; `answers` are the next statuses, 200 when there are none left. 0 hangs up, -1 says nothing."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.url = ""
        self.is_over = threading.Event()

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, _, body in self.requests]

    @property
    def positions(self) -> list[int]:
        return [event["position"] for event in self.events]


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.requests.append((self.path, dict(self.headers), body))
            status = receiver.answers.pop(0) if receiver.answers else 200
            if status < 0:
                receiver.is_over.wait(60)
            if status <= 0:
                self.close_connection = True
                return
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}/hook?token=hidden"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield receiver
    finally:
        receiver.is_over.set()
        server.shutdown()
        thread.join()
        server.server_close()
