"""`python -m bench.live_streams`: what many subscriptions cost, in a process and over HTTP.

In a process: appends of 64 tasks to a file, with and without subscriptions that wait for tags that nobody writes, and with
100 that do get events. Over HTTP: the same appends to a server in a process of its own, with as many idle live streams, what
they take of its memory and time, and how long it takes from an append until a stream has the event.

CPU is that of the process with the log. It says more than the rate where other programs run.

examples:
  python -m bench.live_streams --streams 1000 --seconds 3
  python -m bench.live_streams --folder /dev/shm    # without waiting for a disk
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import re
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import strandline
from strandline import AsyncEventStore, Event, Query

from .http_load import Target

TASKS = 64
MATCHING = 100
SETTLE_SECONDS = 2.0
LATENCIES = 200
READ_EVERY_SECONDS = 0.05


def main(arguments: list[str] | None = None) -> None:
    options = _options(arguments)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        asyncio.run(in_process(Path(folder), options.streams, options.seconds))
        with served(Path(folder) / "served.db") as server:
            over_http(server, options.streams, options.seconds)


async def in_process(folder: Path, count: int, seconds: float) -> None:
    idle = [f"none:{n}" for n in range(count)]
    matching = [f"task:{n % TASKS}" for n in range(MATCHING)]
    for name, tags in (("no", []), (f"{count:,} idle", idle), (f"{MATCHING} matching", matching)):
        async with strandline.connect_async(folder / f"{len(tags)}.db") as store:
            delivered = [0]
            tasks = [asyncio.create_task(_follow(store, tag, delivered)) for tag in tags]
            await asyncio.sleep(1)
            cpu, began = time.process_time(), time.perf_counter()
            written = sum(await asyncio.gather(*(_append(store, n, seconds) for n in range(TASKS))))
            cpu, passed = time.process_time() - cpu, time.perf_counter() - began
            for task in tasks:
                task.cancel()
            print(
                f"in a process, {name} subscriptions: {written / passed:,.0f} appends/s, {cpu / written * 1e6:.1f} µs of"
                f" CPU each, {delivered[0]:,} events delivered",
                flush=True,
            )


async def _follow(store: AsyncEventStore, tag: str, delivered: list[int]) -> None:
    async for _ in store.subscribe(Query.tag(tag)):
        delivered[0] += 1


async def _append(store: AsyncEventStore, number: int, seconds: float) -> int:
    written, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        await store.append(Event("A", b'{"n":1}', tags=[f"task:{number}"]))
        written += 1
    return written


class Served:
    """A server in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self._process = process
        self.port = port
        self.url = f"http://127.0.0.1:{port}/v1/logs/default"

    def memory(self) -> float:
        """MiB of resident memory."""
        text = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+)", text)[0]) / 1024

    def cpu(self) -> float:
        """Seconds of CPU so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def served(path: Path) -> Iterator[Served]:
    program = f"from strandline.cli import main; import sys; sys.argv[1:] = ['serve', {str(path)!r}, '--port', '0']; main()"
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield Served(process, int(re.findall(r"127\.0\.0\.1:(\d+)", process.stdout.readline())[0]))
    finally:
        process.terminate()
        process.wait(30)


def over_http(server: Served, count: int, seconds: float) -> None:
    _report_appends(server, "no", seconds)
    before = server.memory()
    with Readers(server, count) as readers:
        time.sleep(SETTLE_SECONDS)
        used = server.memory()
        cpu, seen, began = server.cpu(), readers.checkpoints, time.perf_counter()
        time.sleep(seconds)
        share = (server.cpu() - cpu) / (time.perf_counter() - began)
        print(
            f"over HTTP, {count:,} idle streams: {used:.0f} MiB ({(used - before) * 1024 / max(count, 1):.0f} KiB each),"
            f" {share:.1%} of a core for {(readers.checkpoints - seen) / seconds:,.0f} checkpoints/s",
            flush=True,
        )
        _report_appends(server, f"{count:,} idle", seconds)
        delays = sorted(_delays(server))
        print(
            f"over HTTP, from append to live stream: {statistics.median(delays):.1f} ms at the median,"
            f" {delays[int(len(delays) * 0.99)]:.1f} ms at p99",
            flush=True,
        )


def _report_appends(server: Served, name: str, seconds: float) -> None:
    command = ["-m", "bench.http_load", "--url", server.url, "--connections", str(TASKS), "--json"]
    cpu = server.cpu()
    ran = subprocess.run(
        [sys.executable, *command, "--seconds", str(seconds)], stdout=subprocess.PIPE, check=True
    )
    report = json.loads(ran.stdout)
    each = (server.cpu() - cpu) / max(report["requests"], 1)
    print(
        f"over HTTP, {name} streams: {report['per_second']:,.0f} conditional appends/s, {each * 1e6:.0f} µs of the server's"
        f" CPU each, p99 {report['p99_ms']:.0f} ms",
        flush=True,
    )


def _delays(server: Served) -> Iterator[float]:
    """Milliseconds from the sending of an append until a stream has its event."""
    body = json.dumps({"events": [{"type": "A", "data": {}, "tags": ["waited-for"]}]}).encode()
    append = Target(server.url).request("POST", "events", body)
    with (
        open_stream(server.port, "waited-for") as stream,
        socket.create_connection(("127.0.0.1", server.port)) as writer,
    ):
        stream.recv(65_536)
        for _ in range(LATENCIES):
            began = time.perf_counter()
            writer.sendall(append)
            while b"event: event" not in stream.recv(65_536):
                pass
            yield (time.perf_counter() - began) * 1e3
            writer.recv(65_536)
            time.sleep(0.003)


class Readers:
    """Reads many streams in a process of its own, and counts their checkpoints."""

    def __init__(self, server: Served, count: int) -> None:
        own = multiprocessing.get_context("spawn")
        self._checkpoints = own.Value("q", 0)
        self._process = own.Process(target=_read_streams, args=(server.port, count, self._checkpoints))

    @property
    def checkpoints(self) -> int:
        return int(self._checkpoints.value)

    def __enter__(self) -> Readers:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()


def _read_streams(port: int, count: int, checkpoints: Any) -> None:
    streams = {}
    with select.epoll() as poll:
        for number in range(count):
            stream = open_stream(port, f"none:{number}")
            streams[stream.fileno()] = stream
            poll.register(stream, select.EPOLLIN)
        while True:
            time.sleep(READ_EVERY_SECONDS)  # many at a time, so that reading takes nothing from the server
            for number, _ in poll.poll():
                checkpoints.value += streams[number].recv(65_536).count(b"event: checkpoint")


def open_stream(port: int, tag: str) -> socket.socket:
    """A connection with a live stream."""
    connection = socket.create_connection(("127.0.0.1", port))
    target = Target(f"http://127.0.0.1:{port}/v1/logs/default")
    connection.sendall(target.request("GET", f"events?tag={tag}&format=sse"))
    return connection


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.live_streams",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--streams", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each measurement (%(default)s)")
    parser.add_argument("--folder", help="where the files are made; the system's folder for such files")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
