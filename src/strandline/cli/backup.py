"""`strandline backup`: copy a log while it is in use."""

import shlex
from typing import Annotated

import msgspec
import typer

from strandline import InvalidInput
from strandline.engine.maintenance import backup_log
from strandline.engine.open import DEFAULT_LOG, place_of

from .options import Json, Log, Url, store_and, store_url
from .progress import progress
from .screen import facts, for_people, size, write_json

NAME = "backup"
EXAMPLE = "strandline backup school.db school-backup.db"

Target = Annotated[
    str | None,
    typer.Argument(metavar="TARGET", help="The file to write; it must not exist.", show_default=False),
]


def run(url: Url = None, target: Target = None, *, log: Log = DEFAULT_LOG, as_json: Json = False) -> None:
    """Copy the log to a new file, while it is in use.

    An existing file is never overwritten. Of a PostgreSQL database it says which pg_dump to run.
    """
    if not _is_database(url):  # which needs no target
        url, target = store_and(url, target)
    source = store_url(url)
    if target is None and not _is_database(source):
        raise InvalidInput("no target was named", hint=f"run: strandline backup {shlex.quote(source)} FILE")
    with progress("copying") as step:
        report = backup_log(source, target or f"{log}.dump", step, log=log)
    if for_people(as_json=as_json):
        facts((("backup", report.path), ("head", report.head), ("size", size(report.size_bytes))))
    else:
        write_json(msgspec.structs.asdict(report))


def _is_database(url: str | None) -> bool:
    return url is not None and place_of(url).engine in {"postgres", "http"}
