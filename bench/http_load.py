"""`python -m bench.http_load`: load on a server over HTTP, from a process of its own.

The client is asyncio over plain sockets (uvloop if it is there) with httptools as parser. Each connection sends its next
request when it has the answer to the last one. Latency is from the write of the request to the end of the answer.

modes:
  append   one event with a tag of its own, under the condition that nothing has this tag
  decide   read by a tag, then append with the condition of the answer: two requests per decision
  read     a page of the newest events, by type
  head     the smallest request there is

examples:
  python -m bench.http_load --url http://127.0.0.1:4455/v1/logs/default --connections 64 --seconds 5
  python -m bench.http_load --mode decide --json
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator
from typing import Any, cast
from urllib.parse import urlsplit

import httptools
import msgspec

URL = "http://127.0.0.1:4455/v1/logs/default"
RUN = f"{os.getpid():x}{time.time_ns():x}"
"""Part of each tag, so that runs on the same log do not meet."""
LOST = 0
"""The status that is counted where a connection ended without an answer."""
ANSWER_SECONDS = 60.0
"""An answer that takes longer counts as lost."""

Answer = tuple[int, bytes]
Conversation = Generator[bytes, Answer, None]
"""Yields requests and gets their answers, one after another."""


class Target:
    """A log behind a server: where it is, and how a request for it begins."""

    def __init__(self, url: str, token: str | None = None) -> None:
        place = urlsplit(url)
        self.host, self.port, self.path = place.hostname or "127.0.0.1", place.port or 80, place.path
        self._headers = f"host: {place.netloc}\r\n"
        if token is not None:
            self._headers += f"authorization: Bearer {token}\r\n"

    def request(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """A whole request; `path` goes on from the log."""
        head = f"{method} {self.path}/{path} HTTP/1.1\r\n{self._headers}"
        if body is None:
            return f"{head}\r\n".encode()
        return f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


class Meter:
    """What came back, and how long each answer took."""

    def __init__(self) -> None:
        self.statuses: Counter[int] = Counter()
        self.seconds: list[float] = []
        self.began = self.ended = time.perf_counter()

    def answered(self, status: int, seconds: float) -> None:
        self.statuses[status] += 1
        self.seconds.append(seconds)

    def quantile(self, share: float) -> float:
        ordered = sorted(self.seconds)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0

    def report(self) -> dict[str, Any]:
        passed = self.ended - self.began
        milliseconds = {
            f"p{share * 100:g}_ms": self.quantile(share) * 1e3 for share in (0.5, 0.9, 0.99, 0.999)
        }
        return {
            "requests": len(self.seconds),
            "seconds": passed,
            "per_second": len(self.seconds) / passed if passed else 0.0,
            **milliseconds,
            "max_ms": max(self.seconds, default=0.0) * 1e3,
            "statuses": {str(status): count for status, count in sorted(self.statuses.items())},
            "client_cpu_seconds": time.process_time(),
        }


class Connection(asyncio.Protocol):
    """Holds a conversation over one connection, until it ends or there is no more time."""

    def __init__(self, conversation: Conversation, meter: Meter, is_over: Callable[[], bool]) -> None:
        self._conversation = conversation
        self._meter = meter
        self._is_over = is_over
        self._parser = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []
        self._sent = 0.0
        self._is_waiting = False
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def begin(self) -> None:
        """Send the first request."""
        if self.done.done():  # closed already
            self._meter.answered(LOST, 0.0)
        else:
            self._go_on(None)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, piece: bytes) -> None:
        self._body.append(piece)

    def on_message_complete(self) -> None:
        status, body = self._parser.get_status_code(), b"".join(self._body)
        self._body.clear()
        self._is_waiting = False
        self._meter.answered(status, time.perf_counter() - self._sent)
        self._go_on((status, body))

    def connection_lost(self, error: Exception | None) -> None:
        if self._is_waiting:
            self._meter.answered(LOST, time.perf_counter() - self._sent)
            self._is_waiting = False
        if not self.done.done():
            self.done.set_result(None)

    def give_up(self) -> None:
        """Close the connection without its answer."""
        if not self.done.done():
            self._transport.abort()
            self.connection_lost(None)

    def _go_on(self, answer: Answer | None) -> None:
        try:
            request = next(self._conversation) if answer is None else self._conversation.send(answer)
        except StopIteration:
            self._transport.close()
            return
        if self._is_over():
            self._transport.close()
            return
        self._is_waiting, self._sent = True, time.perf_counter()
        self._transport.write(request)


def appends(target: Target, number: int) -> Conversation:
    """Conditional appends, each with a tag of its own."""
    head, count = 0, 0
    while True:
        tag = f"seat:{RUN}-{number}-{count}"
        query = b'{"items":[{"types":["SeatTaken"],"tags":["%b"]}]}' % tag.encode()
        status, body = yield target.request(
            "POST",
            "events",
            b'{"events":[{"type":"SeatTaken","data":{"guest":"ada","n":%d},"tags":["%b"]}],'
            b'"condition":{"fail_if_events_match":%b,"after":%d}}' % (count, tag.encode(), query, head),
        )
        if status == 201:
            head = msgspec.json.decode(body)["last"]
        count += 1


def decisions(target: Target, number: int) -> Conversation:
    """Reads, each followed by an append with the condition that the read handed over."""
    count = 0
    while True:
        tag = f"seat:{RUN}-{number}-{count}"
        query = {"items": [{"types": ["SeatTaken"], "tags": [tag]}]}
        status, body = yield target.request("POST", "read", msgspec.json.encode({"query": query}))
        if status != 200:
            continue
        event = {"type": "SeatTaken", "data": {"guest": "ada", "n": count}, "tags": [tag]}
        condition = msgspec.json.decode(body)["condition"]
        yield target.request(
            "POST", "events", msgspec.json.encode({"events": [event], "condition": condition})
        )
        count += 1


def reads(target: Target, number: int) -> Conversation:
    """Pages of the newest events."""
    while True:
        yield target.request("GET", "events?type=SeatTaken&backwards=true&limit=20")


def heads(target: Target, number: int) -> Conversation:
    """The position of the last event."""
    while True:
        yield target.request("GET", "head")


MODES: dict[str, Callable[[Target, int], Conversation]] = {
    "append": appends,
    "decide": decisions,
    "read": reads,
    "head": heads,
}


async def load(target: Target, mode: str, connections: int, seconds: float) -> Meter:
    """Hold as many conversations at once for some seconds."""
    loop = asyncio.get_running_loop()
    meter = Meter()
    until = float("inf")
    opened = []
    for number in range(connections):
        conversation = MODES[mode](target, number)
        _, connection = await loop.create_connection(
            lambda conversation=conversation: Connection(
                conversation, meter, lambda: time.perf_counter() >= until
            ),
            target.host,
            target.port,
        )
        opened.append(connection)
    meter.began = time.perf_counter()
    until = meter.began + seconds
    for connection in opened:
        connection.begin()
    await asyncio.wait([connection.done for connection in opened], timeout=seconds + ANSWER_SECONDS)
    meter.ended = time.perf_counter()
    for connection in opened:
        connection.give_up()
    return meter


def main(arguments: list[str] | None = None) -> None:
    options = _options(arguments)
    target = Target(options.url, options.token)
    meter = run(load(target, options.mode, options.connections, options.seconds))
    report = meter.report()
    if options.json:
        print(json.dumps(report))
    else:
        print(in_words(options.mode, options.connections, report))
    sys.exit(0 if LOST not in meter.statuses and max(meter.statuses, default=0) < 500 else 1)


def run(load: Any) -> Meter:
    """Run it on uvloop where there is one."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(load)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return cast("Meter", runner.run(load))


def in_words(mode: str, connections: int, report: dict[str, Any]) -> str:
    """A line for people."""
    statuses = ", ".join(
        f"{count:,} × {'lost' if status == str(LOST) else status}"
        for status, count in report["statuses"].items()
    )
    return (
        f"{mode}, {connections} connections: {report['per_second']:,.0f} requests/s, "
        f"p50 {report['p50_ms']:.1f} ms, p99 {report['p99_ms']:.1f} ms, max {report['max_ms']:.0f} ms "
        f"({statuses}; client: {report['client_cpu_seconds']:.1f} s of CPU in {report['seconds']:.1f} s)"
    )


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.http_load",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--url", default=URL, help="of a log (%(default)s)")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--mode", choices=MODES, default="append")
    parser.add_argument("--token", default=os.environ.get("STRANDLINE_TOKEN"))
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
