"""What `pytest -n` does with the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from workers import LONG

TESTS = Path(__file__).parent
CONFTEST = """
import pytest
from workers import FileByFile

@pytest.fixture(scope="session")
def spark(): ...

def pytest_xdist_make_scheduler(config, log):
    return FileByFile(config, log)
"""
TEST = """
import os, pytest

@pytest.mark.parametrize("n", ["a", "b::c", "d"])
def test_where(n, ARGUMENT):
    with open("ran", "a") as ran:
        ran.write(f"{__name__} {os.environ['PYTEST_XDIST_WORKER']}\\n")
"""


def test_what_is_to_begin_first_exists() -> None:
    assert [name for name in LONG if not (TESTS.parent / name).exists()] == []


def test_all_that_take_the_session_run_in_one_process_and_the_others_file_by_file(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    taking = ["spark/test_one", "spark/deeper/test_two"]
    names = [*taking, "spark/test_other", *(f"test_{number}" for number in range(5))]
    for name in names:
        file = tmp_path / "tests" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(TEST.replace("ARGUMENT", "spark" if name in taking else ""))
    environment = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    command = (sys.executable, "-m", "pytest", "-n", "3", "-p", "no:cacheprovider", f"--rootdir={tmp_path}")
    ran = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    workers: dict[str, set[str]] = {}
    lines = (tmp_path / "ran").read_text().splitlines()
    assert len(lines) == 3 * len(names)
    for line in lines:
        module, worker = line.split()
        workers.setdefault(module, set()).add(worker)
    assert all(len(used) == 1 for used in workers.values())
    assert workers["test_one"] == workers["test_two"] != workers["test_other"]
    assert len(set().union(*workers.values())) == 3
