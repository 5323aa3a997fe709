"""Every example is a script that tells a story, leaves nothing behind, and is in the table of the README."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))


def test_there_are_examples() -> None:
    assert len(SCRIPTS) >= 10


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_an_example_runs_and_leaves_nothing_behind(script: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", script],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) >= 2
    assert list(tmp_path.iterdir()) == []


def test_the_table_lists_every_example_and_nothing_else() -> None:
    rows = re.findall(r"^\| \[(\w+)\]\((\w+)\.py\) \|", (EXAMPLES / "README.md").read_text(), re.MULTILINE)
    assert sorted(name for name, _ in rows) == [script.stem for script in SCRIPTS]
    assert all(name == link for name, link in rows)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_an_example_says_what_the_problem_and_the_boundary_are(script: Path) -> None:
    introduction = " ".join(script.read_text().split('"""')[1].split())
    for word in ("The problem: ", "stream", " Here ", "boundar"):
        assert word.lower() in introduction.lower(), f"the introduction does not speak of {word}"
