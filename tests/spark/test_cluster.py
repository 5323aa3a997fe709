"""The manual's recipe for a cluster, as it is written there: docs/spark/clusters.md."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pyspark
import pytest
from academy import CourseDefined, CourseId, StudentId, StudentSubscribed

import strandline
from strandline.spark.java import find_java
from strandline.testing.postgres import PostgresServer, free_port

HERE = Path(__file__).parent
MANUAL = (HERE.parents[1] / "docs/spark/clusters.md").read_text()
SPARK = Path(pyspark.__file__).parent
COURSES, STUDENTS = 3, 8
WORKERS = 2
SECONDS = 120


class Recipe(NamedTuple):
    """The manual's commands: those that make an environment, pack it and submit a job, and the job."""

    make: str
    pack: str
    submit: str
    job: str


def recipe() -> Recipe:
    section = MANUAL.split("## spark-submit\n")[1].split("\n## ")[0]
    (commands,) = re.findall(r"```bash\n(.*?)```", section, re.DOTALL)
    (job,) = re.findall(r"```text\n(.*?)```", section, re.DOTALL)
    prepare, submit = commands.split("\n\n")
    make, pack = prepare.split("\ntar ")
    return Recipe(make, f"tar {pack}", submit, job)


def with_ours(text: str, ours: dict[str, str]) -> str:
    """The text with this machine's names in the place of the manual's, each of which it has once."""
    for name, here in ours.items():
        assert text.count(name) == 1, f"{name} is in the manual {text.count(name)} times"
        text = text.replace(name, here)
    return text


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the environment, made by the manual's commands."""
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "my-school").mkdir()
    shutil.copyfile(HERE / "academy.py", folder / "my-school" / "school.py")
    installer = shlex.join([sys.executable, str(HERE / "install.py"), "environment"])
    bash(folder, with_ours(recipe().make, {"environment/bin/pip install": installer}))
    return folder


@pytest.fixture(scope="module")
def packed(folder: Path) -> Path:
    """The same with the archive."""
    bash(folder, recipe().pack)
    return folder


def bash(folder: Path, commands: str, **environment: str) -> str:
    """What the commands print, by a shell that has this Python and this Spark."""
    path = os.pathsep.join([str(SPARK / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    given = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    given |= {"PATH": path, "SPARK_HOME": str(SPARK), "JAVA_HOME": find_java().home, **environment}
    ran = subprocess.run(
        ["bash", "-euc", commands], cwd=folder, env=given, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr[-5_000:]
    return ran.stdout


def test_the_environment_of_the_manual_has_all_that_executors_need_but_pyspark(folder: Path, tmp_path: Path):
    """It has no PySpark, and reads a log by the source with the PySpark that Spark brings along."""
    with strandline.connect(tmp_path / "log.db") as store:
        store.append(CourseDefined(course=CourseId("c1"), capacity=3))
    code = """
import json, sys
import adbc_driver_postgresql, psycopg, school
from pyspark.sql.types import LongType, StructField, StructType
from pyspark_strandline import DefaultSource
from strandline.native import know_appends

schema = StructType([StructField("position", LongType(), False)])
reader = DefaultSource({"url": sys.argv[1]}).reader(schema)
batches = [batch for part in reader.partitions() for batch in reader.read(part)]
print([batch.to_pydict() for batch in batches])
"""
    if strandline.speedups.native is None:
        code = code.replace("from strandline.native import know_appends\n", "")
    zips = os.pathsep.join(map(str, sorted((SPARK / "python/lib").glob("*.zip"))))
    python = str(folder / "environment/bin/python")
    bare = subprocess.run([python, "-c", "import pyspark"], capture_output=True, text=True, check=False)
    ran = subprocess.run(
        [python, "-c", code, str(tmp_path / "log.db")],
        env={**os.environ, "PYTHONPATH": zips},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "No module named 'pyspark'" in bare.stderr
    assert ran.stdout == "[{'position': [1]}]\n", ran.stderr


class Cluster(NamedTuple):
    """A master with its workers, and the URL of the log."""

    master: str
    log: str


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A master and two workers by Spark's own script, on this machine's loopback alone."""
    folder = tmp_path_factory.mktemp("spark")
    with ExitStack() as stack:
        server = stack.enter_context(PostgresServer.start(version=18))
        log, port, page = server.url(), free_port(), free_port()
        master = f"spark://127.0.0.1:{port}"
        environment = {
            **os.environ,
            "JAVA_HOME": find_java().home,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "STRANDLINE_SECRET_URL": log,  # as in spark-env.sh
        }

        def start(name: str, *arguments: object) -> None:
            output = stack.enter_context((folder / f"{name}.log").open("w"))
            command = [str(SPARK / "bin/spark-class"), *map(str, arguments)]
            process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
            stack.callback(process.wait)
            stack.callback(process.terminate)

        at = ("--host", "127.0.0.1")
        start("master", "org.apache.spark.deploy.master.Master", *at, "--port", port, "--webui-port", page)
        wait(lambda: is_open(port), folder / "master.log")
        for number in range(WORKERS):
            own = ("--work-dir", folder / f"work{number}", "--webui-port", free_port())
            size = ("--cores", 1, "--memory", "1g")
            start(f"worker{number}", "org.apache.spark.deploy.worker.Worker", *at, *own, *size, master)
        wait(lambda: workers(page) == WORKERS, folder / "worker0.log")
        yield Cluster(master, log)


def wait(is_there: Callable[[], bool], log: Path) -> None:
    """Wait until something has started."""
    end = time.monotonic() + SECONDS
    while not is_there():
        assert time.monotonic() < end, log.read_text()[-5_000:]
        time.sleep(0.1)


def is_open(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def workers(page: int) -> int:
    """How many workers the master knows, as its page tells."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{page}/json/") as answer:
            return int(json.load(answer)["aliveworkers"])
    except OSError:
        return 0


@pytest.fixture
def log(cluster: Cluster) -> str:
    """The log, with some courses."""
    with strandline.connect(cluster.log) as store:
        for course in range(COURSES if store.head() == 0 else 0):
            store.append(CourseDefined(course=CourseId(f"c{course}"), capacity=9))
            for student in range(STUDENTS):
                store.append(
                    StudentSubscribed(student=StudentId(f"s{student}"), course=CourseId(f"c{course}"))
                )
    return cluster.log


def submit(folder: Path, cluster: Cluster, job: str) -> str:
    """Run a job by the manual's commands."""
    ours = {
        "postgresql://reader@db.internal/school": cluster.log,
        "spark://master:7077": cluster.master,
        "job.py": job,
    }
    return bash(folder, with_ours(recipe().submit, ours), SPARK_LOCAL_IP="127.0.0.1")


@pytest.mark.long
def test_the_job_of_the_manual_runs_on_a_cluster(packed: Path, cluster: Cluster, log: str):
    (packed / "job.py").write_text(with_ours(recipe().job, {"/shared/lake": str(packed / "lake")}))
    printed = submit(packed, cluster, "job.py")

    cells = [line.strip("|").replace(" ", "").split("|") for line in printed.splitlines() if "|" in line]
    assert cells == [
        ["type", "count"],
        ["CourseDefined", str(COURSES)],
        ["StudentSubscribed", str(COURSES * STUDENTS)],
        ["id", "exists", "capacity", "taken", "position"],
        *([f"c{n}", "true", "9", str(STUDENTS), str((n + 1) * (STUDENTS + 1))] for n in range(COURSES)),
    ]
    assert strandline.spark.lake_files(packed / "lake")


@pytest.mark.long
def test_every_job_runs_on_a_cluster_and_several_at_once(packed: Path, cluster: Cluster, log: str):
    job = shlex.join([str(HERE / "cluster_jobs.py"), str(WORKERS), str(packed)])
    told = json.loads(submit(packed, cluster, job).splitlines()[-1])

    assert told["refused"].startswith("InvalidInput: a SQLite file is read on one machine only")
    assert (told["write"], told["import"]["written"], told["retag"]["changed"]) == (100, 100, COURSES)
    assert told["retag"]["complete"]
    assert told["head"] >= told["before"] + 201
    assert told["export"]["head"] == told["audit"]["head"] == told["head"]
    assert told["rebuild"]["keys"] == COURSES
    assert told["audit"]["violations"] == 0
    assert (packed / "report.html").stat().st_size > 0
