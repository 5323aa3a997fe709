"""`strandline spark export`: the log as a lake."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

import strandline.spark as sls
from strandline.engine.open import DEFAULT_LOG

from ..options import Json, Log, Url
from .outcome import show
from .running import Master, Verbose, named, running

NAME = "export"
EXAMPLE = "strandline spark export school.db lake"


class Format(Enum):
    """How the files of a lake are kept."""

    PARQUET = "parquet"
    DELTA = "delta"


Lake = Annotated[
    str | None, typer.Argument(metavar="LAKE", help="The folder of the lake.", show_default=False)
]
As = Annotated[Format, typer.Option("--format", help="Plain Parquet files, or Delta tables.")]
Events = Annotated[
    list[str] | None,
    typer.Option(
        "--events", metavar="MODULE[:CLASS]", help="Events that type the silver tables; may be repeated."
    ),
]
Projections = Annotated[
    list[str] | None,
    typer.Option("--projection", metavar="MODULE:CLASS", help="A projection for gold; may be repeated."),
]


def run(
    url: Url = None,
    lake: Lake = None,
    *,
    format: As = Format.PARQUET,
    events: Events = None,
    projections: Projections = None,
    master: Master = None,
    log: Log = DEFAULT_LOG,
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Export the log to a lake of Parquet or Delta tables.

    Raw events, typed tables, folded projections. Run it again to add what is new since; nothing is written twice.
    """
    store, folder = named(url, lake, what="the lake")
    with running("export the log", master, verbose=verbose) as (spark, told):
        exported = sls.export(
            spark,
            store,
            folder,
            format.value,
            log=log,
            events=events or (),
            projections=projections or (),
            progress=told,
        )
    show(exported, as_json=as_json)
