"""The script that measures subscriptions and live streams runs to its end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[2]


def test_it_measures_a_few_streams(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.live_streams", "--streams", "3", "--seconds", "0.2"]
    ran = subprocess.run(
        [*command, "--folder", str(tmp_path)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    lines = ran.stdout.splitlines()
    assert [line.partition(": ")[0] for line in lines] == [
        "in a process, no subscriptions",
        "in a process, 3 idle subscriptions",
        "in a process, 100 matching subscriptions",
        "over HTTP, no streams",
        "over HTTP, 3 idle streams",
        "over HTTP, 3 idle streams",
        "over HTTP, from append to live stream",
    ]
