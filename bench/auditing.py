"""`python -m bench.auditing`: how many appends a second an audit judges, on a warm session of this machine.

Each log has lies planted in it, which the audit must find, and nothing else.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sqlite3
import tempfile
import time
from pathlib import Path
from typing import Any

import strandline
import strandline.spark as sls
from strandline import AppendCondition, AppendRequest, Event, EventStore, Query, QueryItem

BATCH = 1_000
BEHIND = 4
LIES = 5
WARM_UP = 2_000
COURSES = {"many courses": 2_000, "one course": 1}


def main(arguments: list[str] | None = None) -> None:
    """Fill logs of each size, one with many courses and one with a single hot one, and audit them; as JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--appends", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--directory", default="/var/tmp", help="where files are made, and removed")
    options = parser.parse_args(arguments)
    spark = sls.session(options.master)
    with tempfile.TemporaryDirectory(dir=options.directory) as folder:
        measure(spark, Path(folder, "warm-up.db"), "warm-up", WARM_UP, 1)
        for appends in options.appends:
            for name, courses in COURSES.items():
                measure(spark, Path(folder, f"{appends}-{courses}.db"), name, appends, options.rounds)
    spark.stop()


def measure(spark: Any, path: Path, name: str, appends: int, rounds: int) -> None:
    """Fill a log, audit it several times, and say how long that took."""
    lies = planted(path, appends, COURSES.get(name, 10))
    for _ in range(rounds):
        checked, seconds = judge(spark, path, lies)
        told = {
            "log": name,
            "appends": checked,
            "seconds": round(seconds, 2),
            "appends_per_second": round(checked / seconds),
        }
        print(json.dumps(told), flush=True)


def planted(path: Path, appends: int, courses: int) -> list[int]:
    """Fill a log, and let some appends lie; returns which."""
    with strandline.connect(path) as store:
        fill(store, appends, courses)
    return plant(path, appends)


def judge(spark: Any, path: Path, lies: list[int]) -> tuple[int, float]:
    """Audit a log: how many appends were judged, and in how many seconds."""
    start = time.perf_counter()
    report = sls.audit(spark, str(path))
    seconds = time.perf_counter() - start
    found = [row.first for row in report.details.collect()]
    if found != lies:
        raise SystemExit(f"planted {lies}, found {found}")
    return report.checked, seconds


def fill(store: EventStore, appends: int, courses: int) -> None:
    """Subscriptions of students, each decided a little while ago."""
    for start in range(0, appends, BATCH):
        numbers = range(start, min(start + BATCH, appends))
        outcomes = store.append_many([request(number, courses) for number in numbers])
        if any(isinstance(outcome, Exception) for outcome in outcomes):
            raise SystemExit("an append was refused")


def request(number: int, courses: int) -> AppendRequest:
    """Depends on the course, on the student, and on both together; others write meanwhile."""
    course, student = f"course:c{number % courses}", f"student:s{number}"
    asked = Query.of(
        QueryItem(types=["CourseDefined", "CourseClosed"], tags=[course]),
        QueryItem(types=["StudentSubscribed"], tags=[student]),
        QueryItem(types=["StudentSubscribed"], tags=[course, student]),
    )
    event = Event("StudentSubscribed", {"number": number}, tags=[course, student])
    return AppendRequest(event, AppendCondition(asked, after=max(0, number - BEHIND)))


def plant(path: Path, appends: int) -> list[int]:
    """Let some appends have asked for what was there."""
    lie = AppendCondition(Query.types("StudentSubscribed")).to_json()
    firsts = [appends * number // LIES for number in range(1, LIES + 1)]
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        json_shape = "(select id from shape where text = 'json')"
        statement = f"update event set shape = {json_shape}, arguments = ? where position = ?"
        file.executemany(statement, [(lie, first) for first in firsts])
    return firsts


if __name__ == "__main__":
    main()
