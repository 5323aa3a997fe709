"""`strandline check`: whether a log agrees with itself."""

import msgspec
import typer

from strandline.engine.maintenance import CheckReport, check_log
from strandline.engine.open import DEFAULT_LOG

from .failure import REFUSED
from .options import Json, Log, Url, store_url
from .progress import progress
from .screen import console, facts, for_people, plain, table, write_json

NAME = "check"
EXAMPLE = "strandline check school.db"


def run(url: Url = None, *, log: Log = DEFAULT_LOG, as_json: Json = False) -> None:
    """Verify that the log agrees with itself.

    Checks positions, the index against the events, ids, and every recorded condition. Exit code 1 if
    something is wrong.

    It cannot see data that was changed on the disk, because a log keeps no checksums. It cannot see either that
    the newest appends are gone because the -wal file was deleted or damaged. Use a file system with
    checksums, and keep backups.
    """
    with progress("checking") as step:
        report = check_log(store_url(url), step, log=log)
    if for_people(as_json=as_json):
        show_check(report)
    else:
        write_json(msgspec.structs.asdict(report) | {"ok": not report.problems})
    if report.problems:
        raise typer.Exit(REFUSED)


def show_check(report: CheckReport) -> None:
    """The report as a table, with the problems below."""
    counts = ("events", "appends", "conditions", "index_entries")
    facts((name, getattr(report, name)) for name in counts)
    if not report.problems:
        console().print(plain("no problems found", "bold green"))
        return
    found = len(report.problems)
    console().print(plain(f"{found:,} problem{'s' if found > 1 else ''} found", "bold red"))
    rows = ((problem.kind, problem.position, problem.message) for problem in report.problems)
    table(("kind", "position", "what is wrong"), rows)
