"""Compression both ways: what comes packed, what goes packed, and what is refused."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import os
import socket
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from typing import Any

import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st
from serving import Client, serving

import strandline
from strandline import Event, EventStore
from strandline.server import app
from strandline.server.exchange import Limits
from strandline.server.packing import accepted_coding, unpacked

PACK: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "zstd": zstd.compress}
UNPACK: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.decompress, "zstd": zstd.decompress}
MEGABYTE = 1_000_000


@pytest.fixture(params=PACK)
def coding(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def body_of(size: int) -> bytes:
    return json.dumps({"events": [{"type": "T", "data": "x" * size}]}).encode()


def test_packed_bodies_are_unpacked(client: Client, store: EventStore, coding: str) -> None:
    body, halves = body_of(100_000), [body_of(100)[:30], body_of(100)[30:]]
    for packed in (PACK[coding](body), b"".join(map(PACK[coding], halves))):
        assert client.post("events", packed, content_encoding=coding.upper()).status == 201
    assert [len(event.data) for event in store.read()] == [100_002, 102]


def test_bodies_that_are_not_what_they_say_are_refused(
    client: Client, store: EventStore, coding: str
) -> None:
    packed = PACK[coding](body_of(100_000))
    for bad in (b"nothing of the kind", packed[:-20], packed[:20], packed + b"more"):
        reply = client.post("events", bad, content_encoding=coding)
        assert (reply.status, reply.json["path"]) == (422, "$")
    assert store.head() == 0


@pytest.mark.parametrize("name", ["br", "gzip, zstd", "deflate", "x"])
def test_other_codings_are_415(client: Client, name: str) -> None:
    reply = client.post("events", body_of(1), content_encoding=name)
    assert (reply.status, reply.headers["accept-encoding"]) == (415, "zstd, gzip")
    assert "accept-encoding" not in client.post("events", b"a=1", content_type="text/plain").headers


def test_a_window_that_takes_much_memory_is_refused(client: Client) -> None:
    options = {zstd.CompressionParameter.window_log: 27}
    packer = zstd.ZstdCompressor(options=options)
    packed = packer.compress(body_of(100)) + packer.flush()
    assert client.post("events", packed, content_encoding="zstd").status == 422


def bomb(coding: str, content: bytes, times: int) -> bytes:
    if coding == "gzip":
        compress = zlib.compressobj(1, wbits=31)
        return b"".join(compress.compress(content) for _ in range(times)) + compress.flush()
    packer = zstd.ZstdCompressor(1)
    return b"".join(packer.compress(content) for _ in range(times)) + packer.flush()


def test_a_bomb_is_refused_in_little_memory(store: EventStore, coding: str) -> None:
    packed = bomb(coding, b" " * MEGABYTE, 200)
    assert len(packed) < 2 * MEGABYTE
    with serving(app(store, limits=Limits(body_bytes=4 * MEGABYTE))) as client:
        tracemalloc.start()
        try:
            assert client.post("events", packed, content_encoding=coding).status == 413
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 16 * MEGABYTE


def test_an_import_may_be_long_but_no_bomb(store: EventStore, coding: str) -> None:
    line = body_of(1) + b"\n"
    with serving(app(store, limits=Limits(body_bytes=1_000))) as client:
        reply = client.post(
            "appends", bomb(coding, line * 100 + b" " * MEGABYTE, 20), content_encoding=coding
        )
        *answers, last = reply.lines
        assert last["status"] == 413
        assert store.head() == sum("first" in answer for answer in answers) < 2_000
        lines = b"".join(b'{"events":[{"type":"T","data":%d}]}\n' % number for number in range(200))
        assert len(client.post("appends", PACK[coding](lines), content_encoding=coding).lines) == 200


@given(st.lists(st.binary(max_size=2_000)), st.integers(1, 700), st.sampled_from(["gzip", "zstd"]))
def test_any_content_survives_in_any_pieces(contents: list[bytes], size: int, coding: str) -> None:
    packed = b"".join(PACK[coding](content * 40) for content in contents)

    async def arriving() -> AsyncIterator[bytes]:
        for start in range(0, len(packed), size):
            yield packed[start : start + size]

    async def all_of_it() -> bytes:
        return b"".join([piece async for piece in unpacked(arriving(), coding.encode(), 1 << 30)])

    if contents:
        assert asyncio.run(all_of_it()) == b"".join(content * 40 for content in contents)


@pytest.mark.parametrize(
    ("header", "answer"),
    [
        (None, (None, False)),
        (b"", (None, False)),
        (b"identity", (None, False)),
        (b"br", (None, False)),
        (b"gzip", ("gzip", False)),
        (b"x-gzip", ("gzip", False)),
        (b"GZIP, deflate, br, zstd", ("zstd", False)),
        (b"gzip;q=1.0, zstd;q=0.5", ("gzip", False)),
        (b"gzip;q=0, zstd;q=0", (None, False)),
        (b"gzip;q=x", (None, False)),
        (b"*", ("zstd", False)),
        (b"*;q=0.5, zstd;q=0", ("gzip", False)),
        (b"gzip;q=0.5, identity", (None, False)),
        (b"gzip;q=0.5, identity;q=0.4", ("gzip", False)),
        (b"gzip, identity;q=0", ("gzip", True)),
        (b"gzip, *;q=0", ("gzip", True)),
        (b"identity;q=0", (None, False)),
    ],
)
def test_accept_encoding_chooses(header: bytes | None, answer: tuple[str | None, bool]) -> None:
    assert accepted_coding(header) == answer


@pytest.mark.parametrize(
    "target", ["events", "events?format=ndjson", "events?format=csv", "events?format=arrow"]
)
def test_answers_are_packed_as_the_client_accepts(
    client: Client, store: EventStore, target: str, coding: str
) -> None:
    store.append([Event("T", {"guest": "ada", "n": number}) for number in range(5_000)])
    plain = client.get(target)
    assert "content-encoding" not in plain.headers
    reply = client.get(target, accept_encoding=f"{coding}, identity;q=0.1")
    assert reply.headers["content-encoding"] == coding
    assert plain.headers["vary"] == reply.headers["vary"] == "accept, accept-encoding"
    assert UNPACK[coding](reply.body) == plain.body
    assert len(reply.body) < len(plain.body) / 2
    head = client.send("HEAD", target, accept_encoding=coding)
    assert (head.headers["content-encoding"], head.body) == (coding, b"")
    assert head.headers.get("content-length") == reply.headers.get("content-length")


def test_small_answers_and_pages_for_people_are_not_packed(client: Client, coding: str) -> None:
    for path in ("head", "events", "/docs"):
        assert "content-encoding" not in client.get(path, accept_encoding=coding).headers
    refusal = f"{coding}, identity;q=0"
    reply = client.get("head", accept_encoding=refusal)
    assert (reply.headers["content-encoding"], json.loads(UNPACK[coding](reply.body))) == (
        coding,
        {"head": 0},
    )


def test_problems_are_packed_too(client: Client, coding: str) -> None:
    reply = client.get("/nope", accept_encoding=f"{coding}, identity;q=0")
    assert (reply.status, json.loads(UNPACK[coding](reply.body))["code"]) == (404, "not_found")


def test_a_packed_stream_stays_live(client: Client, coding: str) -> None:
    unpacker: Any = zlib.decompressobj(wbits=31) if coding == "gzip" else zstd.ZstdDecompressor()
    with socket.create_connection(("127.0.0.1", client.port), 10) as connection:
        head = f"POST {client.base}/appends HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n"
        connection.sendall(f"{head}accept-encoding: {coding}\r\n\r\n".encode())
        answers = connection.makefile("rb")
        line = b'{"events":[{"type":"T","data":1}]}\n'
        for expected in (1, 2, 3):
            connection.sendall(b"%x\r\n%b\r\n" % (len(line), line))
            if expected == 1:
                while answers.readline() != b"\r\n":
                    pass
            chunk = answers.read(int(answers.readline(), 16))
            assert answers.readline() == b"\r\n"
            assert json.loads(unpacker.decompress(chunk))["first"] == expected


def test_a_packed_stream_that_fails_never_looks_complete(coding: str) -> None:
    store = strandline.connect("memory:")
    store.append([Event("T", os.urandom(8_000)) for _ in range(4_000)])
    with (
        serving(app(store)) as client,
        closing(http.client.HTTPConnection("127.0.0.1", client.port, timeout=30)) as connection,
    ):
        connection.request("GET", f"{client.base}/events?format=csv", headers={"accept-encoding": coding})
        answer = connection.getresponse()
        assert answer.read(10)
        store.close()
        with pytest.raises(http.client.IncompleteRead):
            answer.read()
