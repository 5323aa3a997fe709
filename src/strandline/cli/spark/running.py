"""A Spark session for one command: started quietly, with a bar for its stages, and stopped at the end."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import strandline.spark as sls
from strandline import InvalidInput
from strandline.spark.failures import failures
from strandline.spark.session import active_session

from ..options import store_and, store_url
from ..screen import messages, visible

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="MASTER",
        help="Where Spark runs, as spark://host:7077. Left out: on this machine.",
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show what Spark itself says.")]
Told = Callable[[str, int, int], None]

LOOK_SECONDS = 0.2
VERBOSELY = "add --verbose to see what Spark itself says"


@contextlib.contextmanager
def running(what: str, master: str | None, *, verbose: bool) -> Iterator[tuple[SparkSession, Told]]:
    """A session, and a function to tell it what is done of how much. One that ran before goes on afterwards."""
    # Projections and rules are named by import path; like `strandline run`, look in the present folder too.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    terminal = messages()
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    shown = terminal.is_terminal and not verbose
    with (
        failures(what, VERBOSELY),
        Progress(*columns, console=terminal, transient=True, disable=not shown) as bar,
    ):
        task = bar.add_task("starting Spark", total=None)
        is_ours = active_session() is None
        with contextlib.nullcontext() if verbose else _quiet_start():
            spark = sls.session(master, **{"spark.log.level": "WARN" if verbose else "OFF"})
        try:
            bar.update(task, description=visible(what))
            with _stages(spark, bar) if shown else contextlib.nullcontext():
                yield spark, _teller(bar, task)
        finally:
            if is_ours:
                spark.stop()


def named(url: str | None, other: str | None, *, what: str) -> tuple[str, str]:
    """The store and what else was named."""
    url, other = store_and(url, other)
    if other is None:
        raise InvalidInput(f"{what} is missing", hint="see the example at the end of --help")
    return store_url(url), other


def _teller(bar: Progress, task: Any) -> Told:
    def tell(what: str, done: int, of: int) -> None:
        bar.update(task, description=visible(what), completed=done, total=of or None)

    return tell


@contextlib.contextmanager
def _quiet_start() -> Iterator[None]:
    """The JVM gets an error stream that nobody reads: its greetings and warnings are not ours."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as unread:
        os.dup2(unread.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


@contextlib.contextmanager
def _stages(spark: SparkSession, bar: Progress) -> Iterator[None]:
    """A bar for the stage that runs, as far as Spark tells: through Spark Connect it does not."""
    try:
        tracker = spark.sparkContext.statusTracker()
    except Exception:  # noqa: BLE001 - Connect has no context, and says so in several ways
        yield
        return
    over = threading.Event()

    def look() -> None:
        task = None
        while not over.wait(LOOK_SECONDS):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            found = [stage for stage in stages if stage is not None]
            if not found:
                continue
            done, of = sum(each.numCompletedTasks for each in found), sum(each.numTasks for each in found)
            told = f"Spark stage {max(each.stageId for each in found)}"
            if task is None:
                task = bar.add_task(told, total=of)
            bar.update(task, description=told, completed=done, total=of)

    watcher = threading.Thread(target=look, name="strandline-stages", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
