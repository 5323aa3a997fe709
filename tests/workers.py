"""How `pytest -n` deals the tests to its processes: file by file, the long ones first.

What has a costly fixture for the whole run goes to one of them: everything on Spark.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

TOGETHER = ("tests/spark/",)
# What begins first; the others follow, those with most tests before those with few.
LONG = (
    *TOGETHER,
    "tests/test_stateful.py",
    "tests/test_races.py",
    "tests/bench/test_bench_smoke.py",
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
        file_or_class = nodeid.partition("[")[0].rpartition("::")[0]
        return next((folder for folder in TOGETHER if nodeid.startswith(folder)), file_or_class)

    def _assign_work_unit(self, node: WorkerController) -> None:
        self.workqueue.move_to_end(min(self.workqueue, key=self._turn), last=False)
        super()._assign_work_unit(node)

    def _turn(self, unit: str) -> tuple[int, int]:
        turn = LONG.index(unit) if unit in LONG else len(LONG)
        return turn, -len(self.workqueue[unit])
