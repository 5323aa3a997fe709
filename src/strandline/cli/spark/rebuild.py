"""`strandline spark rebuild`: read models made anew while the old ones serve."""

from __future__ import annotations

from typing import Annotated

import typer

import strandline.spark as sls
from strandline import InvalidInput
from strandline.engine.open import DEFAULT_LOG

from ..options import Json, Log, Url, store_url
from .outcome import show
from .running import Master, Verbose, running

NAME = "rebuild"
EXAMPLE = "strandline spark rebuild school.db --model school:Course=courses --model school:Student=students"

Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model", metavar="MODULE:CLASS=TABLE", help="A projection and its table; again: in the same pass."
    ),
]


def run(
    url: Url = None,
    *,
    models: Models = None,
    master: Master = None,
    log: Log = DEFAULT_LOG,
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Rebuild read models while the old tables serve, then swap them.

    Killed, it goes on or begins again when it is run again; the tables that serve are never half made.
    """
    store, pairs = store_url(url), [_pair(model) for model in models or ()]
    if not pairs:
        raise InvalidInput("no read model was named", hint="add --model module:Projection=table")
    with running("rebuild the tables", master, verbose=verbose) as (spark, _):
        projections, tables = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        rebuilt = sls.rebuild(spark, store, projections, tables, log=log)
    show(rebuilt, as_json=as_json)


def _pair(text: str) -> tuple[str, str]:
    projection, _, table = text.partition("=")
    if not projection or not table:
        raise InvalidInput(
            f"{text!r:.80} names no projection and table", hint="write module:Projection=table"
        )
    return projection, table
