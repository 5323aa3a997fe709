"""`import_events`: files with events become part of a log."""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from ...append import MAX_DATA_BYTES
from ...engine.open import DEFAULT_LOG
from ...errors import InvalidInput
from ...event import check_metadata
from ...store import connect
from ..active import in_any_thread
from ..reach import kept_place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Format = Literal["json", "cloudevents", "parquet"]
Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
Progress = Callable[[str, int, int], None]
"""Is told what is done, how much of it, and of how much."""


class Imported(msgspec.Struct, frozen=True):
    """What an import did.

    Of the `events` in the source, `written` are new at the positions `first` to `last` (live writers may have some in
    between), `repeated` were in the log; `skipped` are retags, which a store writes itself.
    """

    source: str
    format: str
    events: int
    written: int
    repeated: int
    skipped: int
    first: int
    last: int
    head: int
    seconds: float


@in_any_thread
def import_events(
    spark: SparkSession,
    url: str,
    source: Paths,
    format: Format = "json",
    *,
    log: str = DEFAULT_LOG,
    order_by: str | None = None,
    name: str | None = None,
    original_time: str | None = None,
    max_data_bytes: int = MAX_DATA_BYTES,
    staging: str | None = None,
    progress: Progress | None = None,
) -> Imported:
    """Append the events of files, folders or patterns: lines of JSON, CloudEvents as lines of JSON, or Parquet.

    Lines keep their order, files go by name; rows of Parquet are sorted by `order_by`, or by `position` if they have
    one. All are checked before the first is written. An event whose id the log has is not written again; an event
    without id gets one made of its file and line, or of `name` and its number. So an import that was interrupted
    goes on where it was if it is run again. `original_time` names the metadata that keeps when an event was recorded
    first. On a cluster, `staging` is a folder that all machines share.
    """
    from ..staging.source import staging_folder
    from .appending import append_in_order
    from .files import source_of
    from .origin import origins
    from .refusing import refuse_bad, refuse_rivals

    began = time.monotonic()
    paths = _listed(source)
    place = kept_place(url)
    if original_time is not None:
        check_metadata({original_time: ""})
    found = source_of(spark, paths, format, order_by)  # before there is a store that nothing would be in
    settings = {"max_data_bytes": max_data_bytes, "original_time": original_time}
    with (
        staging_folder(staging) as folder,
        connect(place.address, log=log, max_data_bytes=max_data_bytes) as store,
    ):
        pieces = found.staged(folder, settings)
        named = name if name is not None or format != "parquet" else "\n".join(map(_url, paths))
        placed = origins(pieces, named)
        refuse_bad(placed)
        refuse_rivals(spark, pieces)
        total = sum(piece.staged for piece in pieces)
        done = append_in_order(
            store, lambda: (e for origin in placed for e in origin.events()), total, progress
        )
        return Imported(
            source=", ".join(paths),
            format=format,
            events=total,
            written=done.written,
            repeated=done.repeated,
            skipped=sum(piece.skipped for piece in pieces),
            first=done.first,
            last=done.last,
            head=store.head(),
            seconds=round(time.monotonic() - began, 3),
        )


def _listed(source: Paths) -> list[str]:
    paths = [os.fspath(path) for path in ([source] if isinstance(source, (str, os.PathLike)) else source)]
    if not paths:
        raise InvalidInput("there is nothing to import", hint="name a file, a folder or a pattern")
    # Spark may run in another folder than this process.
    listed = [os.path.abspath(path) if os.path.exists(path) or glob.glob(path) else path for path in paths]
    for path in listed:
        if os.path.basename(path.rstrip("/")).startswith(("_", ".")):
            raise InvalidInput(
                f"Spark passes over {path}, as over all that begins with _ or .", hint="rename it"
            )
    return listed


def _url(path: str) -> str:
    return path if ":" in path else f"file://{os.path.abspath(path)}"
