"""`python -m bench.lake`: how many events a second an export writes, on a warm session of this machine."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from uuid import uuid4

import strandline
import strandline.spark as sls
from strandline import Event, EventStore

BATCH = 5_000
WARM_UP = 1_000


def main(arguments: list[str] | None = None) -> None:
    """Fill a log, export it in one go and then what was added; as JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--added", type=int, default=100_000, help="events that the second export finds")
    parser.add_argument("--formats", nargs="+", default=["parquet", "delta"])
    parser.add_argument("--url", help="a PostgreSQL database to make a log in; a file otherwise")
    parser.add_argument("--directory", default="/var/tmp", help="where files and lakes are made, and removed")
    options = parser.parse_args(arguments)
    spark = sls.session()
    with tempfile.TemporaryDirectory(dir=options.directory) as folder:
        log = "default" if options.url is None else f"bench{uuid4().hex[:8]}"
        url = options.url or str(Path(folder, "log.db"))
        with strandline.connect(url, log=log) as store:
            fill(store, WARM_UP)
            for format in options.formats:
                sls.export(spark, url, Path(folder, f"warm-{format}"), format, log=log)
            fill(store, options.events - WARM_UP)
            for format in options.formats:
                measure("first", spark, url, Path(folder, format), format, log)
            fill(store, options.added)
            for format in options.formats:
                measure("added", spark, url, Path(folder, format), format, log)
    spark.stop()


def fill(store: EventStore, count: int) -> None:
    """Append subscriptions of students to courses, and now and then a course."""
    head = store.head()
    for start in range(head, head + count, BATCH):
        store.append([event(number) for number in range(start, min(start + BATCH, head + count))])


def event(number: int) -> Event:
    """An event as a course management has them."""
    course, student = f"c{number % 2_000}", f"s{number % 50_000}"
    if number % 20 == 0:
        return Event("CourseDefined", {"course": course, "capacity": number % 40}, tags=[f"course:{course}"])
    data = {"course": course, "student": student, "paid": number / 100, "at": "2025-01-01T00:00:00Z"}
    return Event("StudentSubscribed", data, tags=[f"course:{course}", f"student:{student}"])


def measure(what: str, spark: object, url: str, lake: Path, format: str, log: str) -> None:
    """Export, and say how fast that was."""
    start = time.perf_counter()
    done = sls.export(spark, url, lake, format, log=log)  # type: ignore[arg-type]
    seconds = time.perf_counter() - start
    print(
        json.dumps(
            {
                "export": what,
                "format": format,
                "events": done.events,
                "seconds": round(seconds, 2),
                "events_per_second": round(done.events / seconds),
                "files": done.files,
                "bytes_per_event": round(done.bytes / done.head, 1),
            }
        )
    )


if __name__ == "__main__":
    main()
