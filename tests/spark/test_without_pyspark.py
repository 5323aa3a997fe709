"""Where PySpark is not installed, the command line says so in one line."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import strandline
from strandline.cli.spark import audit, export, fold, import_events, rebuild, report, retag

JOBS = (audit, export, fold, import_events, rebuild, report, retag)
LACKING = ("pyspark", "py4j")


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every installed package except PySpark."""
    folder = tmp_path_factory.mktemp("packages")
    for installed in Path(sysconfig.get_path("purelib")).iterdir():
        if not installed.name.startswith(LACKING):
            (folder / installed.name).symlink_to(installed)
    source = Path(strandline.__file__).parents[1]
    for ours in ("strandline", "pyspark_strandline"):
        if not (folder / ours).exists():
            (folder / ours).symlink_to(source / ours)
    return folder


def run(packages: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python on these packages alone."""
    return subprocess.run(
        [sys.executable, "-S", *arguments],
        env={**os.environ, "PYTHONPATH": str(packages)},
        cwd=packages,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.NAME)
def test_the_command_line_names_the_missing_extra(packages: Path, tmp_path: Path, job):
    with strandline.connect(tmp_path / "school.db"):
        pass
    arguments = job.EXAMPLE.replace("school.db", str(tmp_path / "school.db")).split()[1:]
    done = run(packages, "-m", "strandline.cli", *arguments)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "error: PySpark is not installed",
        "hint: pip install 'strandline[spark]'",
    ]


def test_python_names_the_missing_extra(packages: Path):
    done = run(packages, "-c", "import strandline.spark as sls; sls.session()")

    assert "strandline.errors.MissingDependency: PySpark is not installed" in done.stderr.splitlines()
