"""Every job on a cluster, in the main thread and in others: `cluster_jobs.py EXECUTORS FOLDER`."""

from __future__ import annotations

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
from pyspark.sql import SparkSession

import strandline
import strandline.spark as sls
from strandline.errors import StrandlineError

executors, folder = int(sys.argv[1]), sys.argv[2]
url = os.environ["STRANDLINE_SECRET_URL"]
spark = SparkSession.builder.getOrCreate()
spark.conf.set("spark.sql.shuffle.partitions", 2 * executors)


def executor_count() -> int:
    context: Any = spark.sparkContext._jsc
    return int(context.sc().getExecutorMemoryStatus().size()) - 1


while executor_count() < executors:
    time.sleep(0.1)


def write() -> int:
    sls.register(spark)
    frame = spark.range(100, numPartitions=4).selectExpr("id as n", "'Paid' as type", "'{}' as data")
    options = {"urlEnv": "STRANDLINE_SECRET_URL", "orderBy": "n", "staging": folder}
    frame.write.format("strandline").options(**options).mode("append").save()
    return 100


def fields(outcome: Any) -> Any:
    if isinstance(outcome, StrandlineError):
        return f"{type(outcome).__name__}: {outcome}"
    if isinstance(outcome, sls.AuditReport):
        return outcome.figures()
    return outcome if not isinstance(outcome, msgspec.Struct) else msgspec.to_builtins(outcome)


def refused() -> StrandlineError:
    try:
        sls.fold(spark, "school.db", "school:Course")
    except StrandlineError as error:
        return error
    raise AssertionError("a SQLite file was read on a cluster")


lines = os.path.join(folder, "events.ndjson")
with open(lines, "w", encoding="utf-8") as file:
    file.writelines(json.dumps({"type": "Imported", "data": {"n": n}}) + "\n" for n in range(100))

told: dict[str, Any] = {"refused": fields(refused())}
with strandline.connect(url) as store:
    before = store.head()
with ThreadPoolExecutor(3) as pool:
    changing = {
        "write": pool.submit(write),
        "import": pool.submit(sls.import_events, spark, url, lines, staging=folder),
        "retag": pool.submit(sls.retag, spark, url, "school:more_tags", staging=folder),
    }
    told |= {name: fields(job.result()) for name, job in changing.items()}
    reading = {
        "export": pool.submit(sls.export, spark, url, os.path.join(folder, "lake2"), events="school"),
        "rebuild": pool.submit(sls.rebuild, spark, url, "school:Course", "courses"),
        "audit": pool.submit(sls.audit, spark, url),
        "report": pool.submit(sls.report, spark, url, os.path.join(folder, "report.html")),
    }
    told |= {name: fields(job.result()) for name, job in reading.items()}
with strandline.connect(url) as store:
    told["head"] = store.head()
print(json.dumps(told | {"before": before}))
spark.stop()
