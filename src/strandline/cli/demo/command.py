"""The command itself: set the stage, run the race, show what the log says afterwards."""

from __future__ import annotations

import importlib
import shlex
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple
from urllib.parse import quote

import msgspec
import typer

import strandline
from strandline import EventStore, MissingDependency
from strandline.engine.maintenance import CheckReport, check_log
from strandline.engine.open import DEFAULT_LOG, place_of, refuse_server, without_password

from ..check import show_check
from ..event_table import print_events
from ..failure import REFUSED
from ..options import Json, Log
from ..progress import progress
from ..screen import console, facts, note, plain, table, write_json
from ..serve import address_of
from ..spark.running import Verbose
from .courses import Sales
from .race import Outcome, open_term, run_clients, sales_of
from .serving import HOST, listeners_on
from .serving import serve as serve_log

if TYPE_CHECKING:
    from socket import socket

    from .pipeline import Pipeline

NAME = "demo"
EXAMPLE = "strandline demo --path demo.db --clients 16 --no-spark"
SHOWN_EVENTS = 5

Store = Annotated[
    str | None,
    typer.Option(
        "--path",
        metavar="URL",
        help="The store to use: a file, or postgresql://… Left out: a new one in a temporary folder.",
    ),
]
Clients = Annotated[
    int, typer.Option("--clients", metavar="N", min=1, max=500, help="How many clients at once.")
]
Students = Annotated[
    int,
    typer.Option(
        "--students", metavar="N", min=1, max=100_000, help="How many students, with four wishes each."
    ),
]
Spark = Annotated[
    bool | None,
    typer.Option(
        "--spark/--no-spark",
        help="Whether to go on with the pipeline on Spark. Left out: if it is installed.",
    ),
]
Installer = Annotated[
    str | None,
    typer.Option(
        "--install-spark",
        metavar="COMMAND",
        help="What installs Spark, if it is missing when its turn comes.",
    ),
]
Serve = Annotated[
    bool,
    typer.Option("--serve", help="Then serve the log over HTTP, with clients that go on, until Ctrl-C."),
]
Port = Annotated[
    int,
    typer.Option(
        "--port", metavar="N", min=0, max=65535, help="The port of that server; 0: any that is free."
    ),
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Another number gives other wishes.")]


def run(
    *,
    path: Store = None,
    log: Log = DEFAULT_LOG,
    clients: Clients = 32,
    students: Students = 300,
    seed: Seed = 1,
    spark: Spark = None,
    install_spark: Installer = None,
    serve: Serve = False,
    port: Port = 4455,
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Let many clients fight for the last seats of courses.

    Proves from the log that no seat was sold twice, and shows conflicts and throughput; then exports the log
    to a lake, folds, audits and reports on it with Spark. Shows tables also when piped, unless --json is
    given. Exit code 1 if a seat was sold twice. With --serve it leaves Spark out, unless --spark is given, and
    goes on as a server on this machine with a little traffic.
    """
    if path:
        refuse_server(path, "show its demo in")
    listeners = listeners_on(port) if serve else []
    target = Target(path, log) if path else Target(str(_new_folder() / "courses.db"), DEFAULT_LOG)
    with strandline.connect(target.url, log=target.log) as store:
        term = open_term(store)
        outcome = _race(store, term.wishes(students, seed), clients)
        sold = sales_of(store, term.courses())
        if not as_json:
            _show_race(store, outcome, sold, clients, students)
    with progress("checking") as step:
        report = check_log(target.url, step, log=target.log)
    if not as_json:
        _headline("strandline check")
        show_check(report)
    spark = False if serve and spark is None else spark
    pipeline = _pipeline(target, sold, wanted=spark, installer=install_spark, verbose=verbose)
    if as_json:
        write_json(_fields(target, outcome, sold, report, pipeline))
    else:
        _show_rest(target, sold[-1].id, pipeline)
    is_sound = pipeline is None or pipeline.is_sound
    if report.problems or any(course.sold_twice for course in sold) or not is_sound:
        raise typer.Exit(REFUSED)
    if serve:
        _serve(target, listeners, as_json=as_json)


def _serve(target: Target, listeners: list[socket], *, as_json: bool) -> None:
    address = address_of(HOST, listeners[0].getsockname()[1])
    log = f"{address}/v1/logs/{quote(target.log)}"
    commands = [
        f"curl -s {log}/head",
        f"curl -s '{log}/events?type=StudentSubscribed&backwards=true&limit=3&format=ndjson'",
        f"curl -s {address}/metrics | grep -E '^strandline_(appends|conflicts)_total'",
    ]
    if as_json:
        write_json({"address": address, "log": target.log, "try": commands})
    else:
        _headline("The same log over HTTP, with clients that go on")
        facts([("address", address), ("log", target.log), ("to end", "Ctrl-C")])
        console().print()
        for command in commands:
            console().print(plain(f"  {command}"), soft_wrap=True)
    sys.stdout.flush()
    with strandline.connect(target.url, log=target.log) as store:
        serve_log(store, target.log, listeners)


class Target(NamedTuple):
    """A log, and where what is made of it goes."""

    url: str
    log: str

    @property
    def beside(self) -> Path:
        """The path of a file beside the store, without an ending; for a database, in a new folder."""
        place = place_of(self.url)
        if place.engine == "sqlite":
            return Path(place.address).absolute().with_suffix("")
        return _new_folder() / self.log

    @property
    def words(self) -> str:
        """How a command names it."""
        option = f" --log {shlex.quote(self.log)}" if self.log != DEFAULT_LOG else ""
        return f"{shlex.quote(without_password(self.url))}{option}"


def _new_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="strandline-demo-"))


def _pipeline(
    target: Target, sold: list[Sales], *, wanted: bool | None, installer: str | None, verbose: bool
) -> Pipeline | None:
    """What Spark makes of the log; None if it was not asked for, or is not here and need not be."""
    is_missing = find_spec("pyspark") is None
    if wanted is False or (wanted is None and is_missing and installer is None):
        return None
    try:
        if is_missing and installer is not None:
            _install(installer)
        from .pipeline import run_pipeline

        return run_pipeline(target.url, target.log, target.beside, sold, verbose=verbose)
    except MissingDependency as error:
        if wanted:
            raise
        note(f"without Spark: {error}; {error.hint}")
        return None


def _install(command: str) -> None:
    """Get Spark, which is large, when all that needs none of it has been shown."""
    note("now Spark, which is installed first: it is large, and takes a minute the first time")
    done = subprocess.run(shlex.split(command), stdout=sys.stderr, check=False)
    importlib.invalidate_caches()
    if done.returncode or find_spec("pyspark") is None:
        raise MissingDependency(
            f"Spark is not there after: {command}", hint="pip install 'strandline[spark,jre]', or --no-spark"
        )


def _race(store: EventStore, wanted: list[tuple[str, str]], clients: int) -> Outcome:
    with progress("answering wishes") as step:
        return run_clients(store, wanted, clients, lambda done: step(done, len(wanted)))


def _show_race(store: EventStore, outcome: Outcome, sold: list[Sales], clients: int, students: int) -> None:
    _headline(f"{students:,} students, {clients} clients at once, {len(sold)} courses")
    headings = ("course", "seats", "sold", "refused: full", "refused: other", "sold twice")
    table(headings, (_course_row(course, outcome) for course in sold))
    console().print()
    twice = sum(course.sold_twice for course in sold)
    told = f"{twice:,} seats were sold twice" if twice else "No seat was sold twice"
    _line(f"{told}: folded from the log, {sum(len(course.sold) for course in sold):,} subscriptions.")
    _line(f"{outcome.conflicts:,} appends were refused because somebody was faster, and decided again.")
    answered, tried = outcome.decided, outcome.decided + outcome.conflicts
    _line(
        f"{answered:,} wishes in {outcome.seconds:.2f} s: {answered / outcome.seconds:,.0f} answers/s,"
        f" {tried / outcome.seconds:,.0f} decisions/s; every append is synced to disk."
    )
    _headline("The last events of the log")
    last = list(islice(store.read(backwards=True, limit=SHOWN_EVENTS), SHOWN_EVENTS))
    print_events(reversed(last))


def _course_row(course: Sales, outcome: Outcome) -> tuple[object, ...]:
    full = outcome.refused[course.id, "course full"]
    refused = sum(count for (name, _), count in outcome.refused.items() if name == course.id)
    return course.id, course.seats, len(course.sold), full, refused - full, course.sold_twice


def _show_rest(target: Target, course: str, pipeline: Pipeline | None) -> None:
    if pipeline is not None:
        _headline("The same log on Spark")
        _show_pipeline(pipeline)
    _headline("What to try next")
    program, url = _program(), target.words
    for command in (
        f"{program} read {url} --tag course:{course}",
        f"{program} append {url} CourseDefined --fail-if-tag course:{course}",
        f"{program} tail {url} --lines 5",
        f"{program} stats {url}",
    ):
        console().print(plain(f"  {command}"), soft_wrap=True)


def _show_pipeline(pipeline: Pipeline) -> None:
    agrees = "as the store says" if pipeline.equal == pipeline.folded else "NOT as the store says"
    held = "every condition held" if not pipeline.violations else f"{pipeline.violations:,} VIOLATIONS"
    rows = (
        ("export", f"{pipeline.exported:,} new events", pipeline.lake),
        ("fold", f"{pipeline.equal} of {pipeline.folded} courses", agrees),
        ("audit", f"{pipeline.checked:,} appends", held),
        ("report", "one page", pipeline.report),
    )
    table(("job", "what", "result"), rows)
    console().print()
    _line(f"{pipeline.seconds:.1f} s, most of it the start of Spark.")


def _program() -> str:
    """What to type for this program: its name if the shell finds it, else the way it was called."""
    return "strandline" if shutil.which("strandline") else shlex.quote(sys.argv[0])


def _fields(
    target: Target, outcome: Outcome, sold: list[Sales], report: CheckReport, pipeline: Pipeline | None
) -> dict[str, object]:
    return {
        "path": without_password(target.url),
        "decisions": outcome.decided,
        "subscribed": outcome.subscribed,
        "conflicts": outcome.conflicts,
        "seconds": round(outcome.seconds, 3),
        "courses": [
            {
                "course": str(course.id),
                "seats": course.seats,
                "sold": len(course.sold),
                "sold_twice": course.sold_twice,
            }
            for course in sold
        ],
        "check": msgspec.structs.asdict(report),
        "spark": None if pipeline is None else msgspec.structs.asdict(pipeline),
    }


def _headline(text: str) -> None:
    console().print()
    console().print(plain(text, "bold"))


def _line(text: str) -> None:
    console().print(plain(text))
