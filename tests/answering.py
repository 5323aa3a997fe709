"""A program on a port that answers what a test wants: a broken server, a proxy, another protocol."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Answering:
    """What it was asked, and where it listens."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[bytes] = []


@contextmanager
def answering(answer: Callable[[bytes], bytes]) -> Iterator[Answering]:
    """Answer each request, and close the connection. No answer closes it without a word."""
    listener = socket.create_server(("127.0.0.1", 0))
    answering = Answering(f"http://127.0.0.1:{listener.getsockname()[1]}")

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                request = read_request(connection)
                answering.requests.append(request)
                connection.sendall(answer(request))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield answering
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)  # closing alone would not wake it
        listener.close()
        thread.join(10)
        assert not thread.is_alive()


def read_request(connection: socket.socket) -> bytes:
    """Return the next request of a connection, nothing at its end."""
    received = b""
    while b"\r\n\r\n" not in received:
        piece = connection.recv(65536)
        if not piece:
            return received
        received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    (length,) = [int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length:")] or [0]
    while len(body) < length:
        piece = connection.recv(65536)
        if not piece:
            break
        body += piece
    return head + b"\r\n\r\n" + body
