"""eventsourcing's UmaDB adapter runs on Strandline, and eventsourcing's own test cases pass through it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ADAPTER = Path(sys.prefix) / "adapter"


def test_eventsourcings_own_test_cases_pass_through_its_umadb_adapter():
    assert ADAPTER.exists(), "run make setup: it installs eventsourcing-umadb beside everything else"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-v",
        "--noconftest",
        "-p",
        "no:cacheprovider",
        "adapter_cases.py",
    ]
    places = os.pathsep.join([str(ADAPTER), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": places}
    done = subprocess.run(
        command, cwd=HERE, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-5000:]
    (passed,) = re.findall(r"(\d+) passed", done.stdout)
    assert int(passed) >= 25, done.stdout[-5000:]
