"""The server under load and under faults. Clients in another process note what they are told, and the log is compared with it."""

from __future__ import annotations

import os
import re
import resource
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from http_clients import Traffic, traffic
from http_endurance import endure, grows
from http_judging import Verdict, judge

from places import Place, new_log
from server_process import ServerProcess, server_process
from strandline.testing.postgres import PostgresServer


def appended(place: Place, clients: Traffic) -> None:
    """Wait until some more events are there."""
    with place.connect() as store:
        enough = store.head() + 100
        wait_until(lambda: store.head() >= enough or clients.has_ended)
    if clients.has_ended:
        clients.finish()
        raise AssertionError("the clients ended too early")


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < end, "nothing happens any more"
        time.sleep(0.05)


def judged(folder: Path, kept: Place, *, had_faults: bool = True) -> Verdict:
    verdict = judge(folder, kept, had_faults=had_faults)
    assert verdict.written > 50, verdict
    assert verdict.reads > 5, verdict
    assert verdict.watched > 100, verdict
    return verdict


def test_load_of_every_kind_keeps_every_promise(new_place: Callable[[str], Place], tmp_path: Path) -> None:
    kept = new_place("sqlite")
    with server_process(kept) as server:
        with traffic(server, tmp_path, seconds=8, writers=24, watchers=12, rude=6) as clients:
            clients.finish()
        server.stop()
    verdict = judged(tmp_path, kept, had_faults=False)
    assert verdict.refused > 10, verdict
    assert (verdict.lost, verdict.unknown) == (0, 0), verdict


def test_a_server_that_is_killed_stopped_and_frozen_loses_nothing(
    new_place: Callable[[str], Place], tmp_path: Path
) -> None:
    kept = new_place("sqlite")
    with server_process(kept) as server:
        with traffic(server, tmp_path, seconds=120, writers=12, watchers=8, rude=3, pause=0.02) as clients:
            for fault in (server.kill, server.stop, server.kill):
                appended(kept, clients)
                fault()
                server.start_again()
            appended(kept, clients)
            with server.frozen():
                time.sleep(1)
            appended(kept, clients)
            clients.end()
        server.stop()
    verdict = judged(tmp_path, kept)
    assert verdict.lost > 0, verdict
    assert verdict.cuts > 8, verdict


def test_a_database_that_restarts_beneath_the_server_loses_nothing(tmp_path: Path) -> None:
    with PostgresServer.start(version=18) as database:
        kept = new_log(database.url())
        with server_process(kept) as server:
            with traffic(server, tmp_path, seconds=120, writers=8, watchers=6, rude=2, pause=0.02) as clients:
                appended(kept, clients)
                database.stop_immediately()
                database.start_again()
                appended(kept, clients)
                database.stop()
                wait_until(lambda: unavailable(server) > 0)
                database.start_again()
                appended(kept, clients)
                clients.end()
            server.stop()
        verdict = judged(tmp_path, kept)
        assert verdict.problems["unavailable"] > 0, verdict


def test_a_full_disk_refuses_appends_and_nothing_else(
    new_place: Callable[[str], Place], tmp_path: Path
) -> None:
    kept = new_place("sqlite")
    with server_process(kept) as server:
        with traffic(server, tmp_path, seconds=120, writers=8, watchers=6, rude=0, pause=0.02) as clients:
            for _ in range(2):
                appended(kept, clients)
                with full_disk(server.pid, Path(kept.url)), server.place.connect() as store:
                    before = unavailable(server)
                    wait_until(lambda before=before: unavailable(server) > before + 10)
                    head = store.head()
                    assert [event.position for event in store.read(after=head - 10, until=head)] == [
                        *range(head - 9, head + 1)
                    ]
            appended(kept, clients)
            clients.end()
        server.stop()
    verdict = judged(tmp_path, kept)
    assert verdict.problems["unavailable"] > 0, verdict


def unavailable(server: ServerProcess) -> float:
    """How often the server has answered that it cannot do its part, as its metrics tell."""
    with urllib.request.urlopen(f"{server.place.url}/metrics", timeout=30) as answer:
        page = answer.read().decode()
    found = re.search(r'^strandline_problems_total{code="unavailable"} (\S+)', page, re.MULTILINE)
    return float(found[1]) if found else 0.0


@contextmanager
def full_disk(pid: int, file: Path) -> Iterator[None]:
    """Let no file of a process grow beyond what the log has now."""
    size = max(each.stat().st_size for each in file.parent.glob(f"{file.name}*"))
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@pytest.mark.long
@pytest.mark.parametrize("kills", [False, True], ids=["without faults", "with kills"])
def test_endurance(new_place: Callable[[str], Place], tmp_path: Path, kills: bool) -> None:
    """Longer with STRANDLINE_LOAD_SECONDS; `python tests/server/http_endurance.py` has more to choose."""
    seconds = float(os.environ.get("STRANDLINE_LOAD_SECONDS", "60"))
    settings = {"writers": 44, "watchers": 16, "rude": 4, "pause": 0.05}
    verdict, samples = endure(new_place("sqlite"), tmp_path, seconds, kills=kills, **settings)
    assert verdict.written > seconds, verdict
    assert kills or not grows(samples), samples
