"""`strandline spark fold`: the state of every key of a projection."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import typer

import strandline.spark as sls
from strandline.engine.open import DEFAULT_LOG

from ..options import Json, Log, Url
from ..screen import for_people, note, table, write_json
from .rows import columns_of
from .running import Master, Verbose, named, running

NAME = "fold"
EXAMPLE = "strandline spark fold school.db school:Course --limit 10"

Projection = Annotated[
    str | None,
    typer.Argument(
        metavar="PROJECTION",
        help="The projection, as module:Class; the module may be here.",
        show_default=False,
    ),
]
Until = Annotated[int | None, typer.Option("--until", metavar="N", help="Fold up to this position.")]
Limit = Annotated[
    int | None, typer.Option("--limit", metavar="N", min=1, help="At most this many keys. On a terminal: 50.")
]
SHOWN = 50


def run(
    url: Url = None,
    projection: Projection = None,
    *,
    until: Until = None,
    limit: Limit = None,
    master: Master = None,
    log: Log = DEFAULT_LOG,
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Fold the whole log: the state of every key of a projection.

    A line of JSON for each key, or a table on a terminal.
    """
    store, name = named(url, projection, what="the projection")
    people = for_people(as_json=as_json)
    if people and limit is None:
        limit = SHOWN
    with running(f"fold {name}", master, verbose=verbose) as (spark, _):
        folded = sls.fold(spark, store, name, until, log=log)
        headings = list(folded.columns)
        rows = folded if limit is None else folded.limit(limit + people)
        found = map(columns_of, rows.toLocalIterator())
        if not people:
            for row in found:
                write_json(row)
            return
        shown = list(found)
    assert limit is not None
    table(headings, ([row[name] for name in headings] for row in islice(shown, limit)))
    if len(shown) > limit:
        note(f"only the first {limit:,} keys; --limit N shows more, a pipe gets all of them")
