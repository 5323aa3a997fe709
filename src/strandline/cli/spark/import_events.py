"""`strandline spark import`: events from files."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

import strandline.spark as sls
from strandline.engine.open import DEFAULT_LOG

from ..options import Json, Log, Url
from .outcome import show
from .running import Master, Verbose, named, running

NAME = "import"
EXAMPLE = "strandline spark import school.db events.ndjson"


class Format(Enum):
    """What the files are."""

    JSON = "json"
    CLOUDEVENTS = "cloudevents"
    PARQUET = "parquet"


Source = Annotated[
    str | None, typer.Argument(metavar="SOURCE", help="A file, a folder, or a pattern.", show_default=False)
]
As = Annotated[
    Format, typer.Option("--format", help="Lines of JSON, CloudEvents as lines of JSON, or Parquet.")
]


def run(
    url: Url = None,
    source: Source = None,
    *,
    format: As = Format.JSON,
    master: Master = None,
    log: Log = DEFAULT_LOG,
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Append the events of files, in their order.

    All lines are checked before the first event is written. Run it again after an interruption: nothing is
    written twice.
    """
    store, files = named(url, source, what="the source")
    with running("import the events", master, verbose=verbose) as (spark, told):
        imported = sls.import_events(spark, store, files, format.value, log=log, progress=told)
    show(imported, as_json=as_json)
