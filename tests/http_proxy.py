"""A proxy in front of a server over HTTP that loses what a test wants it to lose."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal
from urllib.parse import urlsplit

from answering import read_request

Fault = Literal["lose request", "lose answer", "cut answer", "come late"]
"""What happens to a request: it never arrives, its answer never arrives, or half of it. Or the client hears nothing, and the
request arrives later."""
LATER_SECONDS = 0.05


class HttpProxy:
    """Where it listens, and which requests came by. `fault` says what happens to each."""

    def __init__(self, server_url: str) -> None:
        place = urlsplit(server_url)
        self._server = (str(place.hostname), int(place.port or 80))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}{place.path}"
        self.fault: Callable[[bytes], Fault | None] = lambda request: None
        self.requests: list[bytes] = []
        self.connections = 0
        self._threads: list[threading.Thread] = []
        self._clients = set[socket.socket]()

    def fail_once(self, fault: Fault, text: bytes = b"") -> None:
        """Let this happen to the next request that contains the text."""
        left = [fault]
        self.fault = lambda request: left.pop() if left and text in request else None

    def fail_always(self, fault: Fault, text: bytes = b"") -> None:
        """Let this happen to every request that contains the text."""
        self.fault = lambda request: fault if text in request else None

    def heal(self) -> None:
        """Lose nothing from now on."""
        self.fault = lambda request: None

    def cut(self) -> None:
        """End all connections to clients."""
        for client in list(self._clients):
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

    def run(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(client,))
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()

    def _serve(self, client: socket.socket) -> None:
        self._clients.add(client)
        try:
            with client, contextlib.suppress(OSError):
                while request := read_request(client):
                    if not self._pass_on(request, client):
                        return
        finally:
            self._clients.discard(client)

    def _pass_on(self, request: bytes, client: socket.socket) -> bool:
        self.requests.append(request)
        fault = self.fault(request)
        if fault == "lose request":
            return False
        if fault == "come late":
            thread = threading.Timer(LATER_SECONDS, self._ask, (request,))
            self._threads.append(thread)
            thread.start()
            return False
        answer = self._ask(request)
        if fault == "lose answer":
            return False
        client.sendall(answer[: len(answer) // 2] if fault == "cut answer" else answer)
        return fault is None

    def _ask(self, request: bytes) -> bytes:
        """Return the answer of the server, over a connection of its own."""
        first, _, rest = request.partition(b"\r\n")
        with socket.create_connection(self._server, timeout=60) as server:
            server.sendall(first + b"\r\nConnection: close\r\n" + rest)
            answer = b""
            while piece := server.recv(65536):
                answer += piece
        return answer.replace(b"connection: close\r\n", b"", 1)


@contextmanager
def http_proxy(server_url: str) -> Iterator[HttpProxy]:
    """A proxy in a thread of this process."""
    proxy = HttpProxy(server_url)
    thread = threading.Thread(target=proxy.run)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join(30)
        assert not thread.is_alive()
