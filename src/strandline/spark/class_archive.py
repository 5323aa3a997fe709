"""An archive of the classes that Spark loads: work that every JVM does at its start, done once and kept in a file.

`python -m strandline.spark.class_archive` makes it (170 MB in the cache of the user); sessions on this machine use it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from ..errors import MissingDependency, StrandlineError

if TYPE_CHECKING:
    from .java import Java

OPTIONS = "spark.driver.extraJavaOptions"
# Run in a process of its own: it does a bit of everything, and its JVM writes the archive when it ends.
EXERCISE = """
import sys, tempfile
import strandline
import strandline.spark as sls
from strandline import Event

spark = sls.session("local[2]", **{sys.argv[1]: "-XX:ArchiveClassesAtExit=" + sys.argv[2]})
with tempfile.TemporaryDirectory() as folder:
    url = folder + "/log.db"
    with strandline.connect(url) as store:
        store.append([Event("Paid", {"n": n}, tags=[f"wallet:w{n % 3}"]) for n in range(100)])
    events = spark.read.format("strandline").option("url", url).load()
    events.groupBy("type").count().orderBy("type").collect()
    events.repartition(2, "type").sortWithinPartitions("position").write.parquet(folder + "/events")
    spark.read.parquet(folder + "/events").createOrReplaceTempView("kept")
    spark.sql("select e.tags[0], max(k.position) from kept k join kept e using (position) group by 1").collect()
    stream = spark.readStream.format("strandline").option("url", url).load().writeStream
    stream.format("noop").option("checkpointLocation", folder + "/checkpoint").trigger(availableNow=True).start(
    ).awaitTermination()
gateway = spark.sparkContext._gateway
spark.stop()
gateway.shutdown()
gateway.proc.stdin.close()
gateway.proc.wait()
"""


def archive_options(java: Java) -> dict[str, str]:
    """The settings by which a JVM uses the archive, if there is one for it."""
    path = archive_path(java)
    # A JVM that cannot use it says so and goes on without; nobody needs to hear that.
    return {OPTIONS: f"-XX:SharedArchiveFile={path} -Xlog:disable"} if os.path.exists(path) else {}


def archive_path(java: Java) -> str:
    """Where the archive is: one for each Java and each Spark of this machine."""
    import pyspark

    parts = (java.runtime, java.version, pyspark.__version__, os.path.dirname(pyspark.__file__))
    name = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "strandline", f"spark-{pyspark.__version__}-java-{java.major}-{name}.jsa")


def make_archive() -> str:
    """Make the archive, which takes half a minute, and return its path."""
    from .java import find_java

    path = archive_path(find_java())
    if os.path.exists(path):
        return path
    os.makedirs(os.path.dirname(path), exist_ok=True)
    unfinished = f"{path}.{os.getpid()}"
    try:
        ran = subprocess.run(
            [sys.executable, "-c", EXERCISE, OPTIONS, unfinished], capture_output=True, text=True, check=False
        )
        if ran.returncode:
            last = ran.stderr.strip().rpartition("\n")[2]
            raise StrandlineError(
                f"Spark could not run its exercise: {last:.300}", hint="see strandline doctor"
            )
        if not os.path.exists(unfinished):
            raise MissingDependency(
                "this Java cannot keep classes in an archive; Spark works without one",
                hint="use the Java of the system: apt install openjdk-17-jre-headless",
            )
        os.replace(unfinished, path)
    finally:
        if os.path.exists(unfinished):
            os.unlink(unfinished)
    return path


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{make_archive()}\n")
    except StrandlineError as error:
        sys.exit(f"error: {error.message}\nhint: {error.hint}")
