"""`strandline spark audit`: whether every recorded condition held."""

from __future__ import annotations

import typer

import strandline.spark as sls
from strandline.engine.open import DEFAULT_LOG

from ..failure import REFUSED
from ..options import Json, Log, Url, store_url
from ..screen import console, facts, for_people, plain, table, write_json
from .rows import columns_of
from .running import Master, Verbose, running

NAME = "audit"
EXAMPLE = "strandline spark audit school.db"
SHOWN = 50


def run(
    url: Url = None,
    *,
    master: Master = None,
    log: Log = DEFAULT_LOG,
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Prove over the whole log that every recorded condition held.

    Exit code 1 if one did not.
    """
    with running("audit the log", master, verbose=verbose) as (spark, _):
        report = sls.audit(spark, store_url(url), log=log)
        names = list(report.details.columns)
        found = list(map(columns_of, report.details.limit(SHOWN).toLocalIterator()))
    people = for_people(as_json=as_json)
    if people:
        facts(report.figures().items())
        if report.violations:
            console().print(plain(f"{report.violations:,} violations found", "bold red"))
            table(names, ([row[name] for name in names] for row in found))
        else:
            console().print(plain("every condition held", "bold green"))
    else:
        write_json(report.figures() | {"ok": report.ok, "details": found})
    if not report.ok:
        raise typer.Exit(REFUSED)
