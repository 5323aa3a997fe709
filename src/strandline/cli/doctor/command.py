"""The command itself: collect the findings, show them, judge."""

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from strandline.engine.open import DEFAULT_LOG

from ..failure import USAGE
from ..options import URL_VARIABLE, Json, Log, Url
from ..screen import console, for_people, plain, write_json
from .finding import Finding, State
from .machine import machine_findings
from .packages import package_findings
from .store import file_of, is_elsewhere, store_findings

NAME = "doctor"
EXAMPLE = "strandline doctor school.db"

COLUMNS = (4, 14, None)
MARKS: dict[State, tuple[str, str]] = {
    "ok": ("ok", "green"),
    "absent": ("--", "dim"),
    "warning": ("warn", "yellow"),
    "bad": ("BAD", "bold red"),
}


def run(url: Url = None, *, log: Log = DEFAULT_LOG, as_json: Json = False) -> None:
    """Check this machine and, with a URL, a store.

    Of a store in PostgreSQL: the server, its settings, and what this role may do. Each fault comes with
    its fix. Exit code 2 if there is one.
    """
    bad = 0
    people = for_people(as_json=as_json)
    for finding in _findings(url or os.environ.get(URL_VARIABLE), log):
        bad += finding.state == "bad"
        if people:
            _show(finding)
        else:
            write_json(msgspec.structs.asdict(finding))
    if bad:
        raise typer.Exit(USAGE)


def _findings(url: str | None, log: str) -> Iterator[Finding]:
    yield from machine_findings(_folder(url))
    yield from package_findings()
    if url:
        yield from store_findings(url, log)


def _folder(url: str | None) -> Path | None:
    """The folder of the store, or the nearest one above it that exists; None if it is on a server."""
    if url and is_elsewhere(url):
        return None
    path = file_of(url) if url else None
    if path is None:
        return Path.cwd()
    return next(folder for folder in path.absolute().parents if folder.is_dir())


def _show(finding: Finding) -> None:
    mark, style = MARKS[finding.state]
    row = Table.grid(padding=(0, 2))
    for width in COLUMNS:
        row.add_column(width=width, overflow="fold")
    row.add_row(Text(mark, style), finding.name, plain(finding.found))
    if finding.fix and finding.state != "absent":
        row.add_row("", "", Text.assemble(("fix: ", "cyan"), plain(finding.fix)))
    console().print(row)
