"""`strandline spark report`: a page about the boundaries of a log."""

from __future__ import annotations

from typing import Annotated

import typer

import strandline.spark as sls
from strandline.engine.open import DEFAULT_LOG

from ..options import Json, Log, Url, store_url
from .outcome import show
from .running import Master, Verbose, running

NAME = "report"
EXAMPLE = "strandline spark report school.db --out report.html"

Out = Annotated[str, typer.Option("--out", metavar="FILE", help="The page to write.")]


def run(
    url: Url = None,
    *,
    out: Out = "report.html",
    master: Master = None,
    log: Log = DEFAULT_LOG,
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Write a page about hot tags and contention.

    One HTML file with plots that needs nothing else.
    """
    with running("write the report", master, verbose=verbose) as (spark, _):
        reported = sls.report(spark, store_url(url), out, log=log)
    show(reported, as_json=as_json)
