"""The load client for the server runs, and counts what comes back."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from bench.http_load import LOST, MODES, Target, load
from bench.http_speed import CASES

import strandline
from strandline import EventStore
from strandline.server import app
from strandline.server.serve import Server, listen

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def url(store: EventStore):
    (listener,) = listen("127.0.0.1", 0)
    server = Server(app(store))
    thread = threading.Thread(target=server.run_on, args=([listener],))
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1/logs/default"
    server.stop_soon()
    thread.join(30)


@pytest.fixture
def store():
    with strandline.connect("memory:") as store:
        yield store


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_gets_its_answers(url: str, store: EventStore, mode: str) -> None:
    meter = asyncio.run(load(Target(url), mode, connections=3, seconds=0.2))
    assert set(meter.statuses) <= {200, 201}
    assert meter.statuses[201] == store.head()
    assert len(meter.seconds) == sum(meter.statuses.values()) >= 3


def test_a_lost_connection_is_counted() -> None:
    async def silent() -> None:
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            meter = await load(Target(f"http://127.0.0.1:{port}/v1/logs/default"), "head", 2, 0.2)
        assert dict(meter.statuses) == {LOST: 2}

    asyncio.run(silent())


def test_the_command_prints_one_line_of_json(url: str) -> None:
    command = [sys.executable, "-m", "bench.http_load", "--url", url, "--connections", "2"]
    ran = subprocess.run(
        [*command, "--seconds", "0.2", "--json"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    report = json.loads(ran.stdout)
    assert report["statuses"].keys() == {"201"}
    assert 0 < report["p50_ms"] <= report["p99_ms"] <= report["max_ms"]


def test_the_speed_of_a_server_is_measured_in_every_case(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.http_speed", "--events", "300", "--import-events", "50"]
    small = ["--connections", "2", "--seconds", "0.2", "--rounds", "1", "--directory", str(tmp_path)]
    ran = subprocess.run(
        [*command, *small], cwd=PROJECT, capture_output=True, text=True, timeout=120, check=True
    )
    assert [line.split()[0] for line in ran.stdout.splitlines()] == list(CASES)
