"""Bytes on a socket, for what no HTTP client would send."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE_SECONDS = 30


@contextmanager
def connected(port: int) -> Iterator[socket.socket]:
    with contextlib.closing(socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS)) as connection:
        yield connection


def exchange(port: int, sent: bytes) -> bytes:
    """Send bytes and return all that comes back until the server closes."""
    with connected(port) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(sent)
        return read_all(connection)


def read_all(connection: socket.socket) -> bytes:
    answer = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(65_536):
            answer += piece
    return answer


def statuses(answer: bytes) -> list[int]:
    """The statuses of the answers in some bytes. Bodies that quote a status line would count too."""
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", answer)]


def request(target: str = "/healthz", *headers: str, method: str = "GET", body: bytes = b"") -> bytes:
    """A request that asks the server to close the connection."""
    lines = [f"{method} {target} HTTP/1.1", "host: localhost", "connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1") + body
