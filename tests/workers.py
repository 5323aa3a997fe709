"""How `pytest -n` deals the tests to its processes: file by file, the long ones first.

The files that take the one Spark session of a run go to one process, for a session costs more than most tests.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

SPARK = "tests/spark"
# What begins first; the others follow, those with most tests before those with few.
LONG = (
    SPARK,
    "tests/test_stateful.py",
    "tests/test_races.py",
    "tests/bench/test_bench_smoke.py",
    "tests/spark/test_cluster.py",
    "tests/test_postgres_connections.py",
    "tests/test_model.py",
    "tests/follow/test_follower_kills.py",
    "tests/test_postgres_crash.py",
    "tests/follow/test_read_models_random.py",
    "tests/test_crash.py",
)


class FileByFile(LoadScopeScheduling):
    """Whoever has done with a file, or with a class of one, gets the next."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if file.startswith(SPARK) and takes_session(self.config.rootpath / file):
            return SPARK
        return nodeid.partition("[")[0].rpartition("::")[0]

    def _assign_work_unit(self, node: WorkerController) -> None:
        self.workqueue.move_to_end(min(self.workqueue, key=self._turn), last=False)
        super()._assign_work_unit(node)

    def _turn(self, unit: str) -> tuple[int, int]:
        turn = LONG.index(unit) if unit in LONG else len(LONG)
        return turn, -len(self.workqueue[unit])


@cache
def takes_session(file: Path) -> bool:
    """Whether a function of the file has an argument `spark`."""
    return re.search(r"def \w+\([^)]*\bspark\b", file.read_text()) is not None
