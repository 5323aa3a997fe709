"""Connections of clients that mean no good: slow, huge, malformed, smuggled, upgraded."""

from __future__ import annotations

import contextlib
import json
import time

import pytest
from serving import Client, serving

from raw import connected, exchange, read_all, request, statuses
from strandline import Event, EventStore
from strandline.server import app
from strandline.server.exchange import Limits
from strandline.server.protocol import Protocol

APPEND = b'{"events":[{"type":"T","data":1}]}'
EVENTS = "/v1/logs/default/events"
HEALTH = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"


def posting(*headers: str, body: bytes = APPEND) -> bytes:
    return request(EVENTS, *headers, method="POST", body=body)


def chunked(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def test_a_chunked_append_is_one_append(client: Client, store: EventStore) -> None:
    answer = exchange(
        client.port, posting("transfer-encoding: chunked", body=chunked(*[b"%c" % b for b in APPEND]))
    )
    assert statuses(answer) == [201]
    assert store.head() == 1


SMUGGLED = [
    posting("content-length: 34", "transfer-encoding: chunked", body=chunked(APPEND)),
    posting("transfer-encoding: chunked", "content-length: 34", body=chunked(APPEND)),
    posting("content-length: 34", "content-length: 35"),
    posting("content-length: 34", "content-length: 34"),
    posting("content-length: 34, 34"),
    posting("content-length: +34"),
    posting("content-length: -1"),
    posting("content-length: 0x22"),
    posting("content-length: 34 34"),
    posting("content-length: 99999999999999999999999"),
    posting("content-length : 34"),
    posting(" content-length: 34"),
    posting("transfer-encoding: chunked", "transfer-encoding: chunked", body=chunked(APPEND)),
    posting("transfer-encoding: identity", body=APPEND),
    posting("transfer-encoding: gzip, chunked", body=chunked(APPEND)),
    posting("transfer-encoding: chunked, identity", body=chunked(APPEND)),
    posting("transfer-encoding: xchunked", body=chunked(APPEND)),
    posting("transfer-encoding:\x0bchunked", body=chunked(APPEND)),
    posting("transfer-encoding : chunked", body=chunked(APPEND)),
    posting("transfer-encoding: chunked", body=b"0x22\r\n" + APPEND + b"\r\n0\r\n\r\n"),
    posting("transfer-encoding: chunked", body=b"-1\r\n" + APPEND + b"\r\n0\r\n\r\n"),
    posting("transfer-encoding: chunked", body=b"ffffffffffffffffff\r\n" + APPEND),
    posting("transfer-encoding: chunked", body=b"22\n" + APPEND + b"\n0\n\n"),
    posting("transfer-encoding: chunked", body=b"22\r\n" + APPEND + b"XX0\r\n\r\n"),
    posting("transfer-encoding: chunked", body=b"22 ;\x00\r\n" + APPEND + b"\r\n0\r\n\r\n"),
    posting("x: a\n content-length: 34"),
    posting("x: a\r\n folded", "content-length: 34"),
    posting("x\x00y: a", "content-length: 34"),
    posting("x: a\x00b", "content-length: 34"),
    posting("x: a\rcontent-length: 34"),
    posting("host: evil.example", "content-length: 34"),
    posting("content-type: application/json", "content-type: text/html", "content-length: 34"),
    b"POST " + EVENTS.encode() + b" HTTP/1.1\nhost: localhost\ncontent-length: 34\n\n" + APPEND,
    b"\x00" + posting("content-length: 34"),
    b"GET /healthz\r\n\r\n",
    b"GET /healthz HTTP/9.9\r\nhost: localhost\r\n\r\n",
    b"GET /healthz HTTP/2.0\r\nhost: localhost\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"POST /v1/logs/default/events HTTP/1.0\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
    + chunked(APPEND),
    b"GET /healthz HTTP/1.1\r\nhost: evil.example\r\nhost: localhost\r\nconnection: close\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nauthorization: a\r\nauthorization: b\r\nconnection: close\r\n\r\n",
    b"GET /health z HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"GET /\xff HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"GET /\x00 HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"GET healthz HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"get /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 64,
    b"EHLO mail.example\r\n",
]


@pytest.mark.parametrize("sent", SMUGGLED)
def test_what_two_readers_could_read_differently_is_refused(
    client: Client, store: EventStore, sent: bytes
) -> None:
    answer = exchange(client.port, sent)
    (status,) = statuses(answer)
    assert 400 <= status < 500
    assert store.head() == 0
    assert b"application/problem+json" in answer


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that waits for half a second instead of ten or sixty."""
    monkeypatch.setattr(Protocol, "header_seconds", 0.5)
    monkeypatch.setattr(Protocol, "write_seconds", 0.5)


def test_a_trailer_is_no_header(client: Client, store: EventStore) -> None:
    body = (
        chunked(APPEND)[:-2] + b"strandline-trace: store\r\nhost: evil.example\r\norigin: http://evil\r\n\r\n"
    )
    trace = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    answer = exchange(client.port, posting("transfer-encoding: chunked", trace, body=body))
    assert statuses(answer) == [201]
    assert dict(store.event(1).metadata) == {}


@pytest.mark.parametrize("beginning", [b"", b"G", b"GET /heal", HEALTH[:-2], HEALTH + b"GET /"])
@pytest.mark.usefixtures("impatient")
def test_a_head_that_does_not_come_ends_the_connection(client: Client, beginning: bytes) -> None:
    with connected(client.port) as connection:
        connection.sendall(beginning)
        assert statuses(read_all(connection)) in ([], [200])


@pytest.mark.usefixtures("impatient")
def test_a_head_byte_by_byte_gets_no_more_time(client: Client) -> None:
    with connected(client.port) as connection:
        began = time.monotonic()
        with contextlib.suppress(OSError):
            while time.monotonic() - began < 20:
                connection.sendall(b"x")
                time.sleep(0.1)
        assert time.monotonic() - began < 20


@pytest.mark.usefixtures("impatient")
def test_the_rest_of_a_refused_body_gets_no_more_time(client: Client) -> None:
    with connected(client.port) as connection:
        connection.sendall(
            posting("content-length: 1000000", "host2: x", body=b"").replace(b"localhost", b"evil.example")
        )
        began = time.monotonic()
        with contextlib.suppress(OSError):
            while time.monotonic() - began < 20:
                connection.sendall(b"x")
                time.sleep(0.1)
        assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET /healthz?" + b"a" * 10_000_000,
        b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: " + b"a" * 70_000 + b"\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: " + b"a" * 10_000_000,
        b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n" + b"a" * 10_000_000,
        b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n" + b"x: a\r\n" * 200 + b"\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n" + b"x: a\r\n" * 1_000_000,
        b"A" * 10_000_000,
    ],
    ids=len,
)
def test_a_huge_head_is_refused_before_it_is_complete(client: Client, head: bytes) -> None:
    (status,) = statuses(exchange(client.port, head)) or [431]  # lost where the connection was reset
    assert status in {400, 431}
    assert client.get("/healthz").status == 200


def test_endless_trailers_are_refused(client: Client, store: EventStore) -> None:
    start = posting("transfer-encoding: chunked", body=chunked(APPEND)[:-2])
    for more in (b"x: y\r\n" * 1_000_000, b"x: " + b"y" * 10_000_000):
        answer = exchange(client.port, start + more)
        assert statuses(answer) in ([], [400], [431])
    assert store.head() == 0


def test_requests_may_wait_in_line_but_not_thousands(client: Client) -> None:
    assert statuses(exchange(client.port, HEALTH * 20 + request())) == [200] * 21
    answer = exchange(client.port, HEALTH * 5_000)
    assert len(statuses(answer)) < 100
    assert client.get("/healthz").status == 200


def test_an_append_is_answered_although_garbage_follows(client: Client, store: EventStore) -> None:
    sent = posting("content-length: 34").replace(b"connection: close", b"x: y") + b"\x00garbage"
    answer = exchange(client.port, sent)
    assert statuses(answer) == [201]
    assert store.head() == 1


UPGRADES = [
    ("connection: upgrade", "upgrade: websocket", "sec-websocket-version: 13",
     "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="),
    ("connection: Upgrade, HTTP2-Settings", "upgrade: h2c", "http2-settings: AAMAAABkAARAAAAAAAIAAAAA"),
    ("connection: upgrade", "upgrade: tls/1.3"),
]  # fmt: skip


@pytest.mark.parametrize("headers", UPGRADES)
def test_another_protocol_is_not_taken_up_and_the_request_is_answered(
    client: Client, store: EventStore, headers: tuple[str, ...]
) -> None:
    lines = f"POST {EVENTS} HTTP/1.1\r\nhost: localhost\r\n" + "".join(f"{line}\r\n" for line in headers)
    for framing in (
        b"content-length: 34\r\n\r\n" + APPEND,
        b"transfer-encoding: chunked\r\n\r\n" + chunked(APPEND),
    ):
        sent = lines.encode() + framing
        with connected(client.port) as connection:
            for piece in (sent[:20], sent[20:-10], sent[-10:]):  # as Java's client, which always asks for h2c
                connection.sendall(piece)
                time.sleep(0.01)
            connection.sendall(request())
            assert statuses(read_all(connection)) == [201, 200]
    assert store.head() == 2


@pytest.mark.parametrize("target", ["evil.example:443", "localhost:443", "/healthz"])
def test_it_is_no_proxy(client: Client, target: str) -> None:
    answer = exchange(client.port, request(target, method="CONNECT"))
    assert statuses(answer) == [400]


@pytest.mark.parametrize("method", ["TRACE", "TRACK", "PROPFIND", "DELETE", "PATCH", "PUT", "BREW"])
def test_other_methods_are_refused(client: Client, store: EventStore, method: str) -> None:
    for target in ("/", EVENTS, "/healthz"):
        (status,) = statuses(exchange(client.port, request(target, "x-secret: s3cret", method=method)))
        assert status in {400, 405}
    assert b"s3cret" not in exchange(client.port, request(EVENTS, "x-secret: s3cret", method=method))


def test_http_1_0_is_answered_and_closed(client: Client) -> None:
    with connected(client.port) as connection:
        connection.sendall(b"GET /healthz HTTP/1.0\r\nhost: localhost\r\n\r\n")
        assert statuses(read_all(connection)) == [200]
    assert statuses(exchange(client.port, b"GET /healthz HTTP/1.0\r\n\r\n")) == [403]


def test_an_absolute_target_or_a_star_does_no_harm(client: Client) -> None:
    for target, expected in (("http://evil.example/healthz", {200, 400, 403}), ("*", {400, 404})):
        (status,) = statuses(exchange(client.port, request(target)))
        assert status in expected


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("accept", ["application/json", "application/x-ndjson", "text/csv"])
def test_who_does_not_read_an_answer_loses_the_connection(store: EventStore, accept: str) -> None:
    store.append([Event("T", "x" * 100_000) for _ in range(400)])
    application = app(store)
    with serving(application) as client, connected(client.port) as connection:
        connection.sendall(request(EVENTS, f"accept: {accept}"))
        assert connection.recv(100)
        deadline = time.monotonic() + 20
        while application._service.metrics.under_way:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert not read_all(connection).endswith(
            (b"0\r\n\r\n", b"}")
        )  # what was in the buffers of the sockets


def test_connections_beyond_the_bound_get_503(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Protocol, "most_connections", 5)
    with contextlib.ExitStack() as stack:
        for _ in range(5):
            connection = stack.enter_context(connected(client.port))
            connection.sendall(HEALTH)
            assert connection.recv(15) == b"HTTP/1.1 200 OK"
        answer = exchange(client.port, HEALTH)
        assert statuses(answer) == [503]
        assert b"retry-after: 1" in answer
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "overloaded"


def test_a_body_that_stops_or_trickles_gets_408(store: EventStore) -> None:
    with serving(app(store, limits=Limits(body_seconds=0.4))) as client:
        answer = exchange(client.port, posting("content-length: 34", body=APPEND[:10]))
        assert statuses(answer) == [408]
        with connected(client.port) as connection:
            connection.sendall(posting("content-length: 1000000", body=b""))
            connection.settimeout(0.05)
            answer, deadline = b"", time.monotonic() + 20
            while not answer:
                assert time.monotonic() < deadline
                connection.sendall(b" ")
                with contextlib.suppress(TimeoutError):
                    answer = connection.recv(65_536)
            assert statuses(answer) == [408]
    assert store.head() == 0
