"""`python -m bench.folding`: folding a whole log on Spark, beside the fold of one process.

Each log is filled once. In every round each way takes its turn on a warm session; the first rebuild of a session is
a row of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.table import Table

import strandline
import strandline.spark as sls
from strandline import Event, Query
from strandline.domain.folding import Fold

from .commands import Course
from .homes import Databases, Directories, Home
from .machine import MIB, ForeignLoad, descendants_with, describe, own_seconds, resident_bytes
from .page.svg import Series, chart
from .workload import Log, NewEvent, any_event

BATCH = 1_000
PARTITIONS = 2
DIRECTORY = Path("/var/tmp")
SAMPLE_SECONDS = 0.05
BOTH = (["bench.commands:Course", "bench.commands:Student"], ["courses", "students"])


@dataclass
class Row:
    """How long one way took with one log, each time."""

    log: str
    way: str
    events: int
    seconds: list[float] = field(default_factory=list)
    worker_mib: float = 0.0
    foreign_cores: float = 0.0
    cpu_seconds: list[float] = field(default_factory=list)  # of all processes of ours, the server's too

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def in_process(spark: Any, url: str) -> int:
    """Read the log and fold all courses in this process: no table is written."""
    fold, states = Fold(Course), {}
    with strandline.connect(url) as store:
        for event in store.read(Query.types(*fold.types)):
            for key in fold.keys(event.tags):
                state = states.get(key)
                if state is None:
                    state = states[key] = Course(*key)
                fold.apply(state, event)
    return len(states)


def rebuild(spark: Any, url: str) -> int:
    """The table of the courses."""
    return sls.rebuild(spark, url, "bench.commands:Course", "courses").keys


def rebuild_both(spark: Any, url: str) -> int:
    """Two tables in one pass."""
    return sls.rebuild(spark, url, *BOTH).keys


def rebuild_each(spark: Any, url: str) -> int:
    """Two tables, one after the other."""
    return sum(sls.rebuild(spark, url, one, table).keys for one, table in zip(*BOTH, strict=True))


def fold(spark: Any, url: str) -> int:
    """A DataFrame of the courses, counted."""
    return sls.fold(spark, url, Course).count()


PROCESS, ONE, TWO, EACH = (
    *("in process, read and fold", "rebuild"),
    *("rebuild of two in one pass", "rebuild of two, one each"),
)
COLD = "rebuild, session started for it"
WAYS: dict[str, Callable[[Any, str], int]] = {
    PROCESS: in_process,
    ONE: rebuild,
    "fold": fold,
    TWO: rebuild_both,
    EACH: rebuild_each,
}


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    console = Console() if sys.stdout.isatty() else Console(width=140)
    logs = [Log(events, keys) for events in options.events for keys in options.keys]
    logs += [Log(max(options.events), 1)] * options.hottest
    with tempfile.TemporaryDirectory(prefix="strandline-bench-", dir=options.directory) as name:
        directory = Path(name)
        directory.chmod(0o711)
        with _home(options.home, directory) as home:
            rows = _measure(home, logs, options.ways, options.rounds)
        machine = describe(directory)
    console.print(_table(rows))
    if {ONE, TWO, EACH, PROCESS} <= {*options.ways}:
        for line in _verdicts(rows, options):
            console.print(line, highlight=False)
    if options.plot is not None:
        options.plot.write_text(_plot(rows))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(
        json.dumps({"machine": machine, "rows": [asdict(row) for row in rows]}, indent=1) + "\n"
    )


def _measure(home: Home, logs: Sequence[Log], ways: Sequence[str], rounds: int) -> list[Row]:
    rows: list[Row] = []
    spark = None
    for number, log in enumerate(logs):
        url = _filled(home, log, f"log-{number}")
        if spark is None:
            row = Row(log.name, COLD, log.events)
            with _timed(row):
                spark = sls.session(f"local[{PARTITIONS}]", **{"spark.sql.shuffle.partitions": PARTITIONS})
                rebuild(spark, url)
            rows.append(row)
        of_log = [Row(log.name, way, log.events) for way in ways]
        rebuild(spark, url)  # warm for logs of this size
        for turn in range(rounds):
            for row in random.Random(turn).sample(of_log, len(of_log)):
                with _timed(row):
                    WAYS[row.way](spark, url)
        rows += of_log
        home.remove(url if _is_database(home) else str(Path(url).parent))
    if spark is not None:
        spark.stop()
    return rows


@contextmanager
def _timed(row: Row) -> Iterator[None]:
    """Take the time, and the most memory that a Python worker of Spark has meanwhile."""
    is_over, most = threading.Event(), [0]

    def watch() -> None:
        while not is_over.wait(SAMPLE_SECONDS):
            most.extend(map(_worker_bytes, descendants_with("pyspark.daemon")))

    thread = threading.Thread(target=watch)
    thread.start()
    foreign, cpu, began = ForeignLoad(), own_seconds(os.getpid()), perf_counter()
    try:
        yield
    finally:
        row.seconds.append(perf_counter() - began)
        row.cpu_seconds.append(own_seconds(os.getpid()) - cpu)
        row.foreign_cores = max(row.foreign_cores, foreign.cores())
        is_over.set()
        thread.join()
        row.worker_mib = max(row.worker_mib, max(most) / MIB)


def _worker_bytes(pid: int) -> int:
    try:
        return resident_bytes(pid)
    except (OSError, IndexError):  # it has just ended
        return 0


@contextmanager
def _home(name: str, directory: Path) -> Iterator[Home]:
    if name == "embedded":
        yield Directories(directory)
        return
    databases = Databases(directory)
    try:
        yield databases
    finally:
        databases.close()


def _is_database(home: Home) -> bool:
    return isinstance(home, Databases)


def _filled(home: Home, log: Log, name: str) -> str:
    place = home.make(name)
    url = place if _is_database(home) else str(Path(place) / "log.db")
    choose = random.Random(1)
    events = (any_event(choose, log) for _ in range(log.events))
    with strandline.connect(url) as store:
        while batch := [_event(new) for new in islice(events, BATCH)]:
            store.append(batch)
    home.settle(place)
    return url


def _event(new: NewEvent) -> Event:
    return Event(new.type, new.data, tags=new.tags)


def _table(rows: Sequence[Row]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("log", "way"):
        table.add_column(column, no_wrap=True)
    for column in ("median s", "min–max", "events/s", "cpu s", "worker MiB", "others"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            row.log,
            row.way,
            f"{row.median:.2f}",
            f"{min(row.seconds):.2f}–{max(row.seconds):.2f}",
            f"{row.events / row.median:,.0f}",
            f"{statistics.median(row.cpu_seconds):.2f}",
            f"{row.worker_mib:.0f}" if row.worker_mib else "",
            f"{row.foreign_cores:.2f}",
        )
    return table


def _verdicts(rows: Sequence[Row], options: argparse.Namespace) -> Iterator[str]:
    found = {(row.log, row.way): row for row in rows}
    for log in dict.fromkeys(row.log for row in rows):
        faster = found[log, PROCESS].median / found[log, ONE].median
        saved = found[log, EACH].median / found[log, TWO].median
        yield f"{log}: in process ÷ rebuild {faster:.2f} (1 wanted at 1 M events); one each ÷ one pass {saved:.2f} (1.2 wanted)"
    few, many = min(options.events), max(options.events)
    for keys in options.keys if few < many else ():
        small, large = (found[Log(events, keys).name, ONE] for events in (few, many))
        growth = large.median / small.median / (many / few)
        yield f"{keys:,} keys: time per event at {many:,} ÷ at {few:,}: {growth:.2f} (linear: at most 1)"
    if options.hottest:
        hottest = found[Log(many, 1).name, ONE].worker_mib
        spread = found[Log(many, max(options.keys)).name, ONE].worker_mib
        yield f"worker memory with one key for all ÷ with {max(options.keys):,} keys: {hottest / spread:.2f} (at most 1.2)"


def _plot(rows: Sequence[Row]) -> str:
    """Seconds against events: one process beside Spark, whose session runs already or has to be started."""
    cold = next(row for row in rows if row.way == COLD)
    warm = next(row for row in rows if row.way == ONE)
    start = cold.median - warm.median
    lines = [
        Series("in one process", "#b3541e", _points(rows, PROCESS)),
        Series("Spark, session runs", "#1e6fb3", _points(rows, ONE)),
        Series("Spark, session starts", "#7fb3dd", [(x, y + start) for x, y in _points(rows, ONE)]),
    ]
    return chart("Folding a log into a table", "events in the log", "seconds", lines)


def _points(rows: Sequence[Row], way: str) -> list[tuple[float, float]]:
    return [(row.events, row.median) for row in rows if row.way == way]


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.folding", description=__doc__)
    parser.add_argument("--events", type=_numbers, default=[100_000, 1_000_000], help="sizes of logs")
    parser.add_argument("--keys", type=_numbers, default=[2_000, 50_000], help="keys of the projection")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--home", choices=["embedded", "postgres"], default="postgres")
    parser.add_argument("--hottest", action="store_true", help="also a log in which all events have one key")
    parser.add_argument("--ways", type=_ways, default=[*WAYS], help=f"some of: {', '.join(WAYS)}")
    parser.add_argument("--plot", type=Path, help="draw seconds against events, for one number of keys")
    parser.add_argument("--directory", type=Path, default=DIRECTORY, help="where logs live (%(default)s)")
    parser.add_argument("--json", type=Path, default=Path("build/folding.json"), help="the results")
    return parser.parse_args(arguments)


def _numbers(text: str) -> list[int]:
    return sorted({int(part) for part in text.split(",")})


def _ways(text: str) -> list[str]:
    """Those whose names begin so; "in process,rebuild" are the two that matter most."""
    wanted = [part.strip() for part in text.split(",")]
    return [way for way in WAYS if any(way == name or way.partition(",")[0] == name for name in wanted)]


if __name__ == "__main__":
    main()
