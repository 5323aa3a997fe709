"""`strandline spark retag`: tags by a rule, for the whole log."""

from __future__ import annotations

from typing import Annotated

import typer

import strandline.spark as sls
from strandline.engine.open import DEFAULT_LOG

from ..options import Json, Log, QueryJson, Url, parse_query
from .outcome import show
from .running import Master, Verbose, named, running

NAME = "retag"
EXAMPLE = "strandline spark retag school.db school:more_tags"

Rule = Annotated[
    str | None,
    typer.Argument(
        metavar="RULE",
        help="A function of an event that returns tags to add: module:function.",
        show_default=False,
    ),
]


def run(
    url: Url = None,
    rule: Rule = None,
    *,
    query: QueryJson = None,
    master: Master = None,
    log: Log = DEFAULT_LOG,
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Add tags to the events of the log, by a rule in Python.

    Run it again after an interruption: only what is missing is added.
    """
    store, name = named(url, rule, what="the rule")
    chosen = None if query is None else parse_query(query, "--query")
    with running("retag the log", master, verbose=verbose) as (spark, told):
        retagged = sls.retag(spark, store, name, log=log, query=chosen, progress=told)
    show(retagged, as_json=as_json)
