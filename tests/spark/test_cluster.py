"""A cluster: executors are processes of their own, which know the log by their environment only."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from places import Place
from strandline import Event

JOB = """
import json, sys
import strandline.spark as sls
from strandline.errors import StrandlineError
from strandline.spark.frames import events

log, url = sys.argv[1:]
spark = sls.session(
    "local-cluster[2,1,1024]",
    **{"spark.executorEnv.THE_LOG": url, "spark.executor.memory": "512m", "spark.sql.shuffle.partitions": 2},
)
options = {"urlEnv": "THE_LOG", "log": log, "partitions": 4}
frame = spark.read.format("strandline").options(**options).load()
try:
    refused = events(spark, "log.db")
except StrandlineError as error:
    refused = f"{type(error).__name__}: {error}"
rows = frame.selectExpr("count(*)", "sum(position)", "count(distinct id)", "count_if(tags[0] = 'wallet:w1')")
print(json.dumps({
    "found": list(rows.first()),
    "executors": spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1,
    "refused": refused,
}))
spark.stop()
"""


@pytest.mark.long
def test_executors_of_a_cluster_read_a_log_in_postgresql(postgres: Place):
    with postgres.connect() as store:
        store.append([Event("Paid", {"n": n}, tags=[f"wallet:w{n % 2}"]) for n in range(1_000)])
    ran = subprocess.run(
        [sys.executable, "-c", JOB, str(postgres.log), str(postgres.url)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "THE_LOG": str(postgres.url)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout.splitlines()[-1])

    assert told["found"] == [1_000, 500_500, 1_000, 500]
    assert told["executors"] == 2
    assert told["refused"].startswith("InvalidInput: a SQLite file is read on one machine only")
