"""`python -m bench.http_speed`: how fast the server is: reads in every form, imports, conditional appends.

The server is `strandline serve` on a SQLite file, a process of its own. Reads and imports are done by this process with
http.client, which counts what it gets and decodes nothing. Conditional appends are done by bench.http_load, another process.
`cpu` is what the server takes of one core. On a busy machine it says more than the rates.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import strandline
from strandline import Event

from .machine import own_seconds

PIECE = 1 << 20
BATCH = 10_000
FORMS = ("ndjson", "csv", "arrow")
CASES = (*FORMS, "json", "import", "append", "decide")
Work = Callable[[str], tuple[int, int]]
"""Does something with the log at an address, and returns how many events and bytes that were."""


class Figure(NamedTuple):
    """How long some work took, and what it took of the server."""

    events: int
    size: int
    seconds: float
    cpu: float

    def in_words(self, name: str) -> str:
        per_event = self.cpu / self.events * 1e6
        return (
            f"{name:8} {self.events / self.seconds:12,.0f} events/s {self.size / self.seconds / 1e6:8,.0f} MB/s"
            f" {per_event:8.2f} µs of cpu per event"
        )


class Server:
    """`strandline serve` on a file."""

    def __init__(self, path: Path) -> None:
        command = [sys.executable, "-m", "strandline.cli", "serve", str(path), "--port", "0", "--json"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.address = str(json.loads(self._process.stdout.readline())["address"])
        self.pid = self._process.pid

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(30)

    def measure(self, work: Work) -> Figure:
        before, began = own_seconds(self.pid), time.perf_counter()
        events, size = work(self.address)
        return Figure(events, size, time.perf_counter() - began, own_seconds(self.pid) - before)


def main(arguments: list[str] | None = None) -> None:
    options = _options(arguments)
    with tempfile.TemporaryDirectory(dir=options.directory) as folder:
        path = options.log or Path(folder) / "log.db"
        fill(path, options.events)
        with closing(Server(path)) as server:
            for case in options.only or CASES:
                if case in {"append", "decide"}:
                    conditional_appends(server, case, options)
                    continue
                figures = [server.measure(_work(case, options.import_events)) for _ in range(options.rounds)]
                print(max(figures, key=lambda each: each.events / each.seconds).in_words(case), flush=True)


def _work(case: str, import_events: int) -> Work:
    if case == "json":
        return pages
    if case == "import":
        return appends(import_events)
    return lambda address: stream(address, case)


def fill(path: Path, count: int) -> None:
    """Make the log as long as it is to be, of small events with two tags."""
    with strandline.connect(path) as store:
        for start in range(store.head(), count, BATCH):
            store.append([event(number) for number in range(start, min(start + BATCH, count))])


def event(number: int) -> Event:
    course, student = f"c{number % 2_000}", f"s{number % 5_000}"
    tags = [f"course:{course}", f"student:{student}"]
    return Event("StudentSubscribed", {"student": student, "course": course}, tags=tags)


@contextmanager
def connected(address: str) -> Iterator[http.client.HTTPConnection]:
    place = urlsplit(address)
    connection = http.client.HTTPConnection(place.hostname or "127.0.0.1", place.port, timeout=600)
    with closing(connection):
        yield connection


def stream(address: str, form: str) -> tuple[int, int]:
    """Read the whole log in one answer."""
    with connected(address) as connection:
        connection.request("GET", f"/v1/logs/default/events?format={form}")
        answer = connection.getresponse()
        assert answer.status == 200
        buffer, lines, size = bytearray(PIECE), 0, 0
        is_text = form != "arrow"
        while read := answer.readinto(buffer):
            size += read
            lines += buffer.count(b"\n", 0, read) if is_text else 0
    with connected(address) as connection:
        connection.request("GET", "/v1/logs/default/head")
        head = int(json.loads(connection.getresponse().read())["head"])
    assert not is_text or lines == head + 1, (lines, head)
    return head, size


def pages(address: str, limit: int = 10_000) -> tuple[int, int]:
    """Read the whole log page by page."""
    events = size = 0
    with connected(address) as connection:
        body: bytes | None = json.dumps({"limit": limit}).encode()
        while body is not None:
            connection.request("POST", "/v1/logs/default/read", body, {"content-type": "application/json"})
            answer = connection.getresponse().read()
            size += len(answer)
            page = json.loads(answer)
            events += len(page["events"])
            body = None if page["next"] is None else json.dumps(page["next"]).encode()
    return events, size


def appends(count: int) -> Work:
    """Send events through …/appends, one per line, and read the outcomes afterwards."""
    body = b"".join(
        b'{"events":[{"type":"StudentSubscribed","data":{"student":"s%d"},"tags":["student:s%d","course:c%d"]}]}\n'
        % (number, number, number % 100)
        for number in range(count)
    )

    def work(address: str) -> tuple[int, int]:
        with connected(address) as connection:
            connection.request(
                "POST", "/v1/logs/default/appends", body, {"content-type": "application/x-ndjson"}
            )
            outcomes = connection.getresponse().read().splitlines()
        assert len(outcomes) == count
        assert all(b'"first"' in outcome for outcome in outcomes)
        return count, len(body)

    return work


def conditional_appends(server: Server, mode: str, options: argparse.Namespace) -> None:
    """Have another process append under conditions, and print what it says and what the server took."""
    before = own_seconds(server.pid)
    command = [sys.executable, "-m", "bench.http_load", "--url", f"{server.address}/v1/logs/default"]
    more = ["--mode", mode, "--connections", str(options.connections), "--seconds", str(options.seconds)]
    ran = subprocess.run([*command, *more, "--json"], stdout=subprocess.PIPE, text=True, check=True)
    report = json.loads(ran.stdout)
    per_request = (own_seconds(server.pid) - before) / report["requests"] * 1e6
    print(
        f"{mode:8} {report['per_second']:12,.0f} requests/s with {options.connections} connections, "
        f"p50 {report['p50_ms']:.1f} ms, p99 {report['p99_ms']:.1f} ms, {per_request:.0f} µs of cpu per request, "
        f"{report['statuses']}",
        flush=True,
    )


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.http_speed",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--events", type=int, default=1_000_000, help="in the log that is read (%(default)s)")
    add("--import-events", type=int, default=100_000, help="per import (%(default)s)")
    add("--connections", type=int, default=64)
    add("--seconds", type=float, default=5.0, help="of conditional appends")
    add("--rounds", type=int, default=3, help="of each read and import; the fastest counts (%(default)s)")
    add("--only", choices=CASES, nargs="*")
    add("--log", type=Path, help="a file to keep and to use again")
    add("--directory", default=os.environ.get("TMPDIR", "/var/tmp"))
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
