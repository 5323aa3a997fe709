"""`strandline migrate`: bring a log's schema up to date."""

from typing import Annotated

import msgspec
import typer

from strandline.engine.maintenance import migrate_log
from strandline.engine.open import DEFAULT_LOG

from .options import Json, Log, Url, store_url
from .screen import console, facts, for_people, plain, write_json

NAME = "migrate"
EXAMPLE = "strandline migrate school.db --dry-run"

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]


def run(url: Url = None, *, log: Log = DEFAULT_LOG, dry_run: DryRun = False, as_json: Json = False) -> None:
    """Bring the schema of a store up to date.

    No event is ever changed or dropped; make a backup first all the same.
    """
    report = migrate_log(store_url(url), dry_run=dry_run, log=log)
    if not for_people(as_json=as_json):
        write_json(msgspec.structs.asdict(report) | {"dry_run": dry_run})
        return
    facts((("schema before", report.before), ("would be after" if dry_run else "schema after", report.after)))
    for number, step in enumerate(report.steps, 1):
        console().print(plain(f"{number}. {step}"))
    if not report.steps:
        console().print(plain("nothing to do", "green"))
