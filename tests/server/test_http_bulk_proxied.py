"""Imports that come by a proxy: some stop passing the body on as soon as the answer begins."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest
from serving import Client

from strandline.server import bulk

LINE = b'{"events": [{"type": "A", "data": {}}]}\n'


@pytest.fixture
def sending(client: Client, pause: float, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A connection on which an import has begun that a proxy passes on."""
    monkeypatch.setattr(bulk, "PAUSE_SECONDS", pause)
    with socket.create_connection(("127.0.0.1", client.port), 30) as connection:
        head = f"POST {client.base}/appends HTTP/1.1\r\nhost: localhost\r\nx-forwarded-for: 192.0.2.1\r\n"
        connection.sendall(f"{head}content-length: {2 * len(LINE)}\r\n\r\n".encode() + LINE)
        yield connection


@pytest.mark.parametrize("pause", [3600])
def test_the_answer_begins_when_the_body_is_complete(sending: socket.socket) -> None:
    sending.settimeout(0.5)
    with pytest.raises(TimeoutError):
        sending.recv(1)
    sending.settimeout(30)
    sending.sendall(LINE)
    assert [line["first"] for line in outcomes(sending, 2)] == [1, 2]


@pytest.mark.parametrize("pause", [0.01])
def test_the_answer_begins_when_the_client_waits_for_it(sending: socket.socket) -> None:
    assert [line["first"] for line in outcomes(sending, 1)] == [1]
    sending.sendall(LINE)
    assert [line["first"] for line in outcomes(sending, 1)] == [2]


def outcomes(connection: socket.socket, count: int) -> list[dict[str, int]]:
    """Read until so many outcomes have come."""
    received = b""
    while received.count(b'"duplicate"') < count or not received.endswith(b"\n"):
        piece = connection.recv(10_000)
        assert piece, received
        received += piece
    return [json.loads(line) for line in received.splitlines() if line.startswith(b'{"first"')]
