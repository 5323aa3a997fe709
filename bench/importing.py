"""`python -m bench.importing`: how fast files become part of a log, on SQLite and PostgreSQL, first and again."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import strandline.spark as sls
from strandline import Event
from strandline.testing.postgres import PostgresServer

PHASES = {"appending": "append", "looking for what is there": "look"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--master", default="local[2]")
    arguments = parser.parse_args()
    spark = sls.session(arguments.master)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder, PostgresServer.start(version=18) as server:
        source = write_source(Path(folder) / "events.ndjson", arguments.events)
        warm_up = write_source(Path(folder) / "few.ndjson", 100)
        sls.import_events(spark, f"{folder}/warm-up.db", str(warm_up))
        for name, url in (("sqlite", f"{folder}/log.db"), ("postgres", server.url())):
            for turn in ("first", "again"):
                measure(spark, f"{name} {turn}", url, str(source))
    spark.stop()


def write_source(path: Path, count: int) -> Path:
    """Lines of small events with two tags."""
    with path.open("w") as file:
        for n in range(count):
            student, course = f"s{n % 5_000}", f"c{n % 2_000}"
            event = Event(
                "StudentSubscribed",
                {"student": student, "course": course},
                tags=[f"student:{student}", f"course:{course}"],
            )
            file.write(f"{event.to_json()}\n")
    return path


def measure(spark: object, name: str, url: str, source: str) -> None:
    spans: dict[str, tuple[float, float]] = {}
    began = time.monotonic()

    def told(what: str, done: int, of: int) -> None:
        now = time.monotonic()
        spans[what] = (spans.get(what, (now, now))[0], now)

    done = sls.import_events(spark, url, source, progress=told)  # type: ignore[arg-type]
    staged = min(first for first, _ in spans.values()) - began
    phases = ", ".join(f"{PHASES[what]} {last - first:.1f} s" for what, (first, last) in spans.items())
    rate = done.events / done.seconds
    print(
        f"{name}: {done.events:,} events, {done.written:,} written, {rate:,.0f}/s: stage {staged:.1f} s, {phases}"
    )


if __name__ == "__main__":
    main()
