"""The benchmark runs from end to end; how fast anything is does not matter here."""

import json
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[2]
THREADS_AND_ASYNC = {"append@4", "cycle@4", "processes:2x2", "small:append@4"}
THREADS_ONLY = {
    "append@1",
    "cycle@1",
    "query",
    "scan",
    "bulk",
    "stale",
    "hot-rare",
    "disk",
    "memory",
}


def test_every_case_is_measured_on_every_store(tmp_path: Path) -> None:
    answer = tmp_path / "out" / "bench.json"
    size = ["--events", "300", "--clients", "1,4", "--seconds", "0.1", "--rounds", "1"]
    ran = subprocess.run(
        [sys.executable, "-m", "bench", *size, "--directory", str(tmp_path), "--json", str(answer)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    result = json.loads(answer.read_text())

    measured = {(summary["case"], summary["store"]) for summary in result["summaries"]}
    expected = {
        (case, store) for case in THREADS_ONLY | THREADS_AND_ASYNC for store in ("strandline", "umadb")
    }
    expected |= {(case, "strandline-async") for case in THREADS_AND_ASYNC}
    expected |= {("raw:fdatasync", "raw"), ("raw:sqlite", "raw")}
    assert measured == expected
    assert all(summary["median"] > 0 for summary in result["summaries"])
    assert not result["skipped"]
    assert {"cores", "memory_mib", "python", "sqlite", "file_system"} <= result["machine"].keys()
    assert "append@4" in ran.stdout
    assert list(tmp_path.iterdir()) == [answer.parent]
